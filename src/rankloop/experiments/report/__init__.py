"""What people read: charts, the HTML page, exports."""

from rankloop.experiments.report.html import write_report

__all__ = ["write_report"]
