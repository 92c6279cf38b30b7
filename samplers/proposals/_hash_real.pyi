from expfam.samplers.proposals._hash import BoundHash

BLOCK_BYTES: int

class RealHash(BoundHash): ...
