"""Vector loops for three instruction sets, chosen when a module is loaded."""
