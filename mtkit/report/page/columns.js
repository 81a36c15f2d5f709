// Columns: deflated and in base64 in the page, unpacked when they are wanted.

const ARRAYS = {u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array};

async function inflated(number) {
  const packed = bytesOf(part(`column-${number}`).textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

async function numbersOf(column) {
  return new ARRAYS[column.kind](await inflated(column.column));
}

async function textsOf(column) {
  return new Texts(new TextDecoder().decode(await inflated(column.column)), column.count);
}

/** Many texts in one: of each only where it ends is kept. */
class Texts {
  constructor(all, count) {
    this.all = all;
    this.count = count;
    this.ends = endsIn(all, count);
  }

  get(row) {
    return this.all.slice(row ? this.ends[row - 1] + 1 : 0, this.ends[row]);
  }

  /** Mark the rows that have a text; capital letters count where it has some. */
  mark(wanted, marks) {
    const low = wanted.toLowerCase();
    const {all, ends} = low === wanted ? this.low() : this;
    let row = 0;
    for (let at = all.indexOf(wanted); at >= 0 && row < this.count; at = all.indexOf(wanted, at)) {
      row = rowAt(ends, at, row);
      marks[row] = 1;
      at = ends[row] + 1;
    }
  }

  /** The texts in small letters; made when it is first asked for, or when nothing else is done. */
  low() {
    if (!this.lowered) {
      const all = this.all.toLowerCase();
      // No letter becomes shorter: of the same length, all ends are the same.
      this.lowered = {all, ends: all.length === this.all.length ? this.ends : endsIn(all, this.count)};
    }
    return this.lowered;
  }
}

function endsIn(all, count) {
  const ends = new Uint32Array(count);
  let at = -1;
  for (let row = 0; row < count; row += 1) {
    at = all.indexOf("\n", at + 1);
    if (at < 0) at = all.length;
    ends[row] = at;
  }
  return ends;
}

/** The first row that ends at or behind a place. */
function rowAt(ends, place, from) {
  let low = from, high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ends[middle] < place) low = middle + 1;
    else high = middle;
  }
  return low;
}
