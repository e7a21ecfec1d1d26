// SHA-256 (FIPS 180-4). WebCrypto would answer later and only in secure contexts; names of objects are short.

const k = new Uint32Array(64);
const initial = new Uint32Array(8);

/** The first 32 bits of the fractional part of a root. */
const fraction = (root: number) => ((root - Math.floor(root)) * 2 ** 32) >>> 0;

function fillConstants(): void {
  for (let candidate = 2, found = 0; found < 64; candidate++) {
    let prime = true;
    for (let d = 2; d * d <= candidate; d++) if (candidate % d === 0) prime = false;
    if (!prime) continue;
    if (found < 8) initial[found] = fraction(Math.sqrt(candidate));
    k[found++] = fraction(Math.cbrt(candidate));
  }
}

const rotate = (x: number, n: number) => (x >>> n) | (x << (32 - n));

/** The hash of a text's UTF-8 bytes as eight 32-bit words. */
export function sha256(text: string): Uint32Array {
  if (k[0] === 0) fillConstants();
  const bytes = new TextEncoder().encode(text);
  const padded = new Uint8Array((bytes.length + 8 + 64) & ~63);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, bytes.length * 8);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  const h = initial.slice();
  for (let at = 0; at < padded.length; at += 64) compress(h, view, at);
  return h;
}

function compress(h: Uint32Array, view: DataView, at: number): void {
  const w = new Uint32Array(64);
  const word = (from: Uint32Array, i: number) => from[i] as number;
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const a = word(w, i - 15);
    const b = word(w, i - 2);
    const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
    const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
    w[i] = word(w, i - 16) + s0 + word(w, i - 7) + s1;
  }
  const s = h.slice();
  for (let i = 0; i < 64; i++) {
    const [a, b, c, , e, f, g, last] = s as unknown as number[] as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (last + s1 + ((e & f) ^ (~e & g)) + word(k, i) + word(w, i)) >>> 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    s.copyWithin(1, 0, 7);
    s[4] = word(s, 4) + t1;
    s[0] = t1 + t2;
  }
  for (let i = 0; i < 8; i++) h[i] = word(h, i) + word(s, i);
}
