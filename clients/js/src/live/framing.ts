/** The largest frame that a server sends: a request of 1 MiB whose every byte needs escaping, with its headers. */
export const maxFrame = 7 << 20;

/** A length of 4 bytes has 28 bits, which is more than any frame needs. */
const maxLengthBytes = 4;

/** Puts a frame's length before it, as protobuf does: 7 bits a byte, the lowest first. */
export function delimit(frame: Uint8Array): Uint8Array<ArrayBuffer> {
  const length: number[] = [];
  let rest = frame.length;
  for (; rest > 0x7f; rest >>>= 7) length.push((rest & 0x7f) | 0x80);
  length.push(rest);
  const bytes = new Uint8Array(length.length + frame.length);
  bytes.set(length);
  bytes.set(frame, length.length);
  return bytes;
}

export class FrameTooLongError extends Error {}

/** Cuts a stream's bytes into frames, whatever the pieces in which they come. */
export class Frames {
  private frame: Uint8Array | undefined; // whose content is being read; undefined: its length is
  private filled = 0;
  private length = 0;
  private lengthBytes = 0;

  constructor(private readonly most: number = maxFrame) {}

  /** Takes the next bytes and hands over the frames that end in them. A frame that is too long throws before it takes memory. */
  take(bytes: Uint8Array, frame: (content: Uint8Array) => void): void {
    for (let at = 0; at < bytes.length; ) {
      if (!this.frame) {
        this.lengthByte(bytes[at++] as number);
      } else {
        const part = bytes.subarray(at, at + this.frame.length - this.filled);
        this.frame.set(part, this.filled);
        this.filled += part.length;
        at += part.length;
      }
      const whole = this.frame;
      if (whole && this.filled === whole.length) {
        this.frame = undefined;
        frame(whole);
      }
    }
  }

  private lengthByte(b: number): void {
    this.length += (b & 0x7f) << (7 * this.lengthBytes++);
    const last = b < 0x80;
    if (this.length > this.most || (!last && this.lengthBytes === maxLengthBytes)) {
      throw new FrameTooLongError(`the server sent a frame of more than ${this.most} bytes`);
    }
    if (!last) return;
    this.frame = new Uint8Array(this.length);
    this.filled = this.length = this.lengthBytes = 0;
  }
}
