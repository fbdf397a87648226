"""What others can check: receipts, and a forensic look for remains of rows."""
