"""Vector loops for three instruction sets; each module chooses one when it is loaded."""
