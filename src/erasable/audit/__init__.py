"""What others can check: receipts, a forensic look for remains of rows, and the definitions of unlearning."""
