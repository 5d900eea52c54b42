"""Flight records from daily files into Delta tables, and an independent account of them."""
