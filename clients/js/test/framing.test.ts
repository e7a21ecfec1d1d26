import { expect, test } from "vitest";
import { delimit, Frames, FrameTooLongError, maxFrame } from "../src/live/framing.js";
import { delimited } from "./support/faketransport.js";

/** The lengths at which the number of length bytes changes. */
const sizes = [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151, 2_097_152, maxFrame];

test("a frame stands behind its length as protobuf writes it", () => {
  expect([...delimit(new Uint8Array([7, 8]))]).toEqual([2, 7, 8]);
  for (const size of sizes.slice(0, 7)) {
    expect(delimit(new Uint8Array(size).fill(9))).toEqual(delimited(new Uint8Array(size).fill(9)));
  }
});

test("frames of every size come out as they went in", () => {
  const got: number[] = [];
  const frames = new Frames();
  for (const size of sizes) frames.take(delimit(new Uint8Array(size)), (f) => got.push(f.length));
  expect(got).toEqual(sizes);
});

test("frames come out whole however the stream is cut", () => {
  const texts = ["", "a", "Blåbær ☕", "x".repeat(200), "", "last"];
  const stream = texts.flatMap((t) => [...delimited(t)]);
  for (let step = 1; step <= stream.length; step++) {
    const got: string[] = [];
    const frames = new Frames();
    for (let at = 0; at < stream.length; at += step) {
      frames.take(new Uint8Array(stream.slice(at, at + step)), (f) => got.push(new TextDecoder().decode(f)));
    }
    expect(got).toEqual(texts);
  }
});

test("a frame that is too long is refused before its content comes", () => {
  const take = (bytes: number[], most?: number) => new Frames(most).take(new Uint8Array(bytes), () => {});
  expect(() => take([4], 4)).not.toThrow();
  expect(() => take([5], 4)).toThrow(FrameTooLongError);
  expect(() => take([0xff, 0xff, 0xff, 0x7f])).toThrow(FrameTooLongError);
  expect(() => take([0x80, 0x80, 0x80, 0x80])).toThrow(FrameTooLongError); // a length that never ends
});
