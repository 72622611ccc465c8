"""Reports: charts and the HTML page."""
