"""What a budget buys, and what speaks against a run, from public facts."""
