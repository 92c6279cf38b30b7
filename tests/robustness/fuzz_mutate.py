"""Small hostile changes of files: of their bytes, of the arrays in them, of their JSON, and of command lines.

Every function takes bytes and a `random.Random`, and returns bytes; the same random numbers give the same bytes. Files
that carry checksums or lengths are taken apart, changed inside and put together again, or hardly a change would get
past the first check.
"""

import contextlib
import gzip
import io
import json
import re
import zipfile
import zlib

import numpy as np

LONGEST = 1 << 16  # bytes; longer inputs are cut, so that changes on top of changes do not make them grow for ever
DEEP = 5000  # levels of nested lists, more than Python's stack holds
NUMBERS = (0, -1, 1, 127, 255, 2**15, 2**31 - 1, 2**31, 2_000_000_000, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
WORDS = ["", "nan", "inf", "-inf", "1e308", "1e400", "-0.0", "0x10", "1_0", "\0", "é", "\ud800", "'", '"', "=1+1", "x"]
WORDS += [str(number) for number in NUMBERS]
DTYPES = ["<f8", "<f4", ">f8", "<i8", "<i4", "<i2", "|i1", "<u8", "|b1", "<c16", "<U3", "|S3", "<M8[s]", "|O", "<f2"]


def mutate_bytes(data, rng):
    """One change of bytes anywhere: flipped, overwritten, inserted, cut out, repeated or cut off."""
    data = bytearray(data or b"\0")
    at, length = rng.randrange(len(data)), rng.choice((1, 1, 2, 4, 8, 32))
    change = rng.randrange(6)
    if change == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif change == 1:
        data[at : at + length] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", rng.randbytes(1))) * length
    elif change == 2:
        data[at:at] = rng.randbytes(length)
    elif change == 3:
        del data[at : at + length]
    elif change == 4:
        data[at:at] = data[at : at + length] * rng.choice((1, 2, 50))
    else:
        del data[at:]
    return bytes(data[:LONGEST])


def mutate_text(data, rng):
    """One change of a text: a number or word becomes a hostile one, a line is repeated, lost or moved, or its bytes."""
    change = rng.randrange(4)
    if change == 0:
        return mutate_bytes(data, rng)
    if change == 1:
        lines = data.splitlines(keepends=True) or [b""]
        at = rng.randrange(len(lines))
        line = lines.pop(at)
        lines[rng.randrange(len(lines) + 1) : 0] = [line] * rng.choice((0, 1, 2, 3))
        return b"".join(lines)[:LONGEST]
    places = list(re.finditer(rb"[^\s,;:=]+", data)) if change == 2 else list(re.finditer(rb"\d+", data))
    if not places:
        return mutate_bytes(data, rng)
    place = rng.choice(places)
    return (data[: place.start()] + _word(rng) + data[place.end() :])[:LONGEST]


def mutate_gzip(data, rng, inner=mutate_text):
    """One change of what a gzip file holds, or of its own bytes."""
    try:
        content = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return mutate_bytes(data, rng)
    return gzip.compress(inner(content, rng), mtime=0) if rng.random() < 0.7 else mutate_bytes(data, rng)


def mutate_npy(data, rng):
    """One change of a NumPy file: its values, what its header says of them, or its bytes."""
    change = rng.randrange(6)
    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception:  # changed before, so that it cannot be read
        return mutate_bytes(data, rng)
    if change == 0 and rng.random() < 0.3:
        return mutate_bytes(data, rng)
    if change == 1:
        return _saved(array.tobytes(), {"descr": array.dtype.str, "shape": _other_shape(array.shape, rng)}, rng)
    if change == 2:
        return _saved(array.tobytes(), {"descr": rng.choice(DTYPES), "shape": array.shape}, rng)
    return _saved(_other_values(array, rng).tobytes(), {"descr": array.dtype.str, "shape": array.shape}, rng)


def mutate_zip(data, rng):
    """One change of a member of a zip file, by the kind of the member, or of the file's own bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in file.namelist()}
    except Exception:  # changed before, so that it cannot be read
        return mutate_bytes(data, rng)
    change = rng.randrange(30)
    if change == 0 or not members:
        return mutate_bytes(data, rng)
    name = rng.choice(list(members))
    if change == 1:
        del members[name]
    elif change == 2:
        members[rng.choice(list(members))] = members[name]
    elif change == 3:
        members[rng.choice(["X.npy", "data.npy", "shape.npy", "format.npy", "labels.npy", "x"])] = members.pop(name)
    else:
        kinds = {".npy": mutate_npy, ".npz": mutate_zip, "json": mutate_json}
        members[name] = kinds.get(name[-4:], mutate_bytes)(members[name], rng)
    return zipped(members)


def mutate_archive(data, rng, header, arrays):
    """One change of the two files of an archive; every other time the header is told the new types and sizes."""
    data = mutate_zip(data, rng)
    if rng.random() < 0.5:
        return data
    with contextlib.suppress(Exception):  # what was changed before may not be readable
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in file.namelist()}
        document = json.loads(members[header])
        with np.load(io.BytesIO(members[arrays]), allow_pickle=False) as file:
            for name, entry in document["arrays"].items():
                if name in file.files:
                    entry |= {"dtype": file[name].dtype.str, "shape": list(file[name].shape)}
        return zipped(members | {header: json.dumps(document).encode()})
    return data


def mutate_json(data, rng):
    """One change of a JSON text: a value becomes a hostile one or that of another place, or a name is lost."""
    change = rng.randrange(12)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    places = list(_places(document))
    if change == 0 or not places:
        return mutate_text(data, rng)
    holder, key = rng.choice(places)
    if change == 1:
        del holder[key]
    elif change == 2:
        other, other_key = rng.choice(places)
        if not _holds(other[other_key], holder):  # else it would hold itself
            holder[key] = other[other_key]
    elif change == 3 and isinstance(holder, dict):
        holder[rng.choice(WORDS[:12])] = holder.pop(key)
    elif change == 4 and rng.random() < 0.1:
        holder[key] = "DEEP"
    else:
        holder[key] = rng.choice([None, True, [], {}, "", "x", 0.5, -1.5, 1e308, [1, 2], {"$array": ["x"]}, *NUMBERS])
    text = json.dumps(document)
    return text.replace('"DEEP"', "[" * DEEP + "]" * DEEP).encode("utf-8", "surrogatepass")


def mutate_arguments(data, rng, words):
    """One change of a command line, its arguments parted by NUL: mostly of a value, else of any argument."""
    arguments = data.split(b"\0")
    values = [at for at, argument in enumerate(arguments) if at and not argument.startswith(b"-")]
    change = rng.randrange(16)
    if change < 12 and values:  # what else is changed is mostly refused by the parser
        at = rng.choice(values)
        arguments[at] = mutate_text(arguments[at], rng) if change < 6 else rng.choice(words).encode()
        return b"\0".join(arguments)[:LONGEST]
    at = rng.randrange(len(arguments))
    if change <= 12:
        del arguments[at]
    elif change == 13:
        arguments.insert(at, arguments[rng.randrange(len(arguments))])
    elif change == 14:
        arguments.insert(rng.randrange(len(arguments)), arguments.pop(at))
    else:
        arguments[at:at] = [rng.choice(words).encode() for _ in range(2)]
    return b"\0".join(arguments)[:LONGEST]


def zipped(members):
    """A zip file of named bytes, the same whenever it is made."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def _word(rng):
    return rng.choice(WORDS).encode("utf-8", "surrogatepass")


def _saved(content, header, rng):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"fortran_order": rng.random() < 0.1, **header})
    return file.getvalue() + content


def _other_shape(shape, rng):
    sizes = list(shape)
    change = rng.randrange(4)
    if change == 0 or not sizes:
        sizes.insert(rng.randrange(len(sizes) + 1), rng.choice((0, 1, 2)))
    elif change == 1:
        del sizes[rng.randrange(len(sizes))]
    elif change == 2:
        sizes[rng.randrange(len(sizes))] = rng.choice(NUMBERS)
    else:
        sizes[rng.randrange(len(sizes))] += rng.choice((-1, 1))
    return tuple(sizes)


def _other_values(array, rng):
    array = array.copy()
    if array.size == 0:
        return array
    kind, flat = array.dtype.kind, array.reshape(-1)
    if kind == "f":
        values = (np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -1.0, 1e20)
    elif kind in "iu":
        limits = np.iinfo(array.dtype)
        values = [v for v in (*NUMBERS, limits.min, limits.max, array.size) if limits.min <= v <= limits.max]
    elif kind == "b":
        values = (False, True)
    elif kind == "U":
        values = ("", "x", "é")
    else:
        return array
    value = rng.choice(values)
    if rng.random() < 0.2:
        flat[:] = value
    else:
        flat[rng.randrange(array.size)] = value
    return array


def _places(document):
    """Every (holder, key) below a JSON value."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in list(items):
        yield document, key
        yield from _places(value)


def _holds(value, sought):
    return value is sought or any(holder[key] is sought for holder, key in _places(value))
