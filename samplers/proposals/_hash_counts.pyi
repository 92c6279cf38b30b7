from expfam.samplers.proposals._hash import BoundHash

LENGTHS: int

class CountHash(BoundHash): ...
