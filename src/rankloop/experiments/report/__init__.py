"""What people read: charts, the HTML page, exports."""
