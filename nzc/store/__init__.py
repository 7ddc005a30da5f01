"""What outlives a run: the privacy ledger."""
