"""The endpoints, by who calls them: page views, operators, monitoring."""
