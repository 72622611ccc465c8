"""Files as plain text with a title: text, Markdown, HTML, reStructuredText, e-mail. Nothing of a file is ever run."""
