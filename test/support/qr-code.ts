import { inflateSync } from "node:zlib";

/** Whether the module at this row and column is dark. */
type Modules = readonly (readonly boolean[])[];

/** Blocks of data codewords at error correction level M, and the positions of the alignment patterns, by version. */
const VERSIONS: Readonly<
  Record<number, { readonly blocks: readonly number[]; readonly alignment: readonly number[] }>
> = {
  4: { blocks: [32, 32], alignment: [6, 26] },
  5: { blocks: [43, 43], alignment: [6, 30] },
  6: { blocks: [27, 27, 27, 27], alignment: [6, 34] },
  7: { blocks: [31, 31, 31, 31], alignment: [6, 22, 38] },
  8: { blocks: [38, 38, 39, 39], alignment: [6, 24, 42] },
  9: { blocks: [36, 36, 36, 37, 37], alignment: [6, 26, 46] },
};

/**
 * Reads the text of a QR code from a data URL of a sharp PNG, without error correction. Versions 4 to 9, level M.
 * Source: ISO/IEC 18004.
 */
export function readQrCode(dataUrl: string): string {
  const [, base64] = /^data:image\/png;base64,([A-Za-z0-9+/]+=*)$/.exec(dataUrl) ?? [];
  if (base64 === undefined) throw new Error("no data URL of a PNG");
  const modules = modulesOf(darkPixels(Buffer.from(base64, "base64")));
  const version = (modules.length - 17) / 4;
  const layout = VERSIONS[version];
  if (!layout) throw new Error(`no table for version ${version}`);
  return readSegments(inOrder(codewords(modules, layout.alignment), layout.blocks));
}

/** Rows of a PNG in grey, with a byte per pixel and no filter, not interlaced. */
function darkPixels(png: Buffer): boolean[][] {
  if (png.toString("latin1", 0, 8) !== "\x89PNG\r\n\x1a\n") throw new Error("no PNG");
  const parts: Buffer[] = [];
  let [width, height] = [0, 0];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const data = png.subarray(at + 8, at + 8 + png.readUInt32BE(at));
    const type = png.toString("latin1", at + 4, at + 8);
    if (type === "IDAT") parts.push(data);
    if (type !== "IHDR") continue;
    [width, height] = [data.readUInt32BE(0), data.readUInt32BE(4)];
    if (data[8] !== 8 || data[9] !== 0 || data[12] !== 0) throw new Error("another kind of PNG");
  }
  const rows = inflateSync(Buffer.concat(parts));
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => rows[y * (width + 1) + 1 + x]! < 128),
  );
}

/** Scales the image to one pixel per module: the first dark row begins with a finder pattern, seven modules wide. */
function modulesOf(pixels: boolean[][]): Modules {
  const top = pixels.findIndex((row) => row.includes(true));
  const left = pixels[top]!.indexOf(true);
  const size = (pixels[top]!.indexOf(false, left) - left) / 7;
  const count = (pixels[top]!.lastIndexOf(true) + 1 - left) / size;
  return Array.from({ length: count }, (_, row) =>
    Array.from({ length: count }, (_, column) => pixels[top + row * size]![left + column * size]!),
  );
}

const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (row, column) => (row + column) % 2 === 0,
  (row) => row % 2 === 0,
  (_row, column) => column % 3 === 0,
  (row, column) => (row + column) % 3 === 0,
  (row, column) => (Math.floor(row / 2) + Math.floor(column / 3)) % 2 === 0,
  (row, column) => ((row * column) % 2) + ((row * column) % 3) === 0,
  (row, column) => (((row * column) % 2) + ((row * column) % 3)) % 2 === 0,
  (row, column) => (((row + column) % 2) + ((row * column) % 3)) % 2 === 0,
];

/** The unmasked data modules: two columns at a time, from the right, alternately upwards and downwards. */
function codewords(modules: Modules, alignment: readonly number[]): number[] {
  const size = modules.length;
  // The five bits of level and mask are beside the first finder pattern.
  const format = [0, 1, 2, 3, 4].reduce((bits, column) => bits * 2 + Number(modules[8]![column]), 0) ^ 0b10101;
  if (format >> 3 !== 0) throw new Error("another level than M");
  const isMasked = MASKS[format & 7]!;
  const bits: number[] = [];
  let isUp = true;
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right--;
    for (let step = 0; step < size; step++) {
      const row = isUp ? size - 1 - step : step;
      for (const column of [right, right - 1]) {
        if (isFunction(row, column, size, alignment)) continue;
        bits.push(Number(modules[row]![column] !== isMasked(row, column)));
      }
    }
    isUp = !isUp;
  }
  return Array.from({ length: Math.floor(bits.length / 8) }, (_, i) => toNumber(bits.slice(i * 8, i * 8 + 8)));
}

function isFunction(row: number, column: number, size: number, alignment: readonly number[]): boolean {
  const isFinder = (row < 9 && (column < 9 || column > size - 9)) || (row > size - 9 && column < 9);
  const isVersion = size >= 45 && ((row < 6 && column > size - 12) || (row > size - 12 && column < 6));
  const last = alignment.at(-1)!;
  const isAlignment = alignment.some((y) =>
    alignment.some((x) => {
      const isOnFinder = (y === 6 && (x === 6 || x === last)) || (y === last && x === 6);
      return !isOnFinder && Math.abs(row - y) <= 2 && Math.abs(column - x) <= 2;
    }),
  );
  return isFinder || isVersion || isAlignment || row === 6 || column === 6;
}

/** The codewords of the blocks are interleaved; the shorter blocks are first. */
function inOrder(words: readonly number[], blocks: readonly number[]): number[] {
  const read: number[][] = blocks.map(() => []);
  let at = 0;
  for (let i = 0; i < Math.max(...blocks); i++)
    for (const [block, length] of blocks.entries()) if (i < length) read[block]!.push(words[at++]!);
  return read.flat();
}

const ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";

function readSegments(words: readonly number[]): string {
  const bits = words.flatMap((word) => [7, 6, 5, 4, 3, 2, 1, 0].map((place) => (word >> place) & 1));
  let at = 0;
  const take = (count: number) => {
    at += count;
    return toNumber(bits.slice(at - count, at));
  };
  const bytes: number[] = [];
  for (let mode = take(4); mode !== 0 && at < bits.length; mode = take(4)) {
    if (mode === 1) for (let left = take(10); left > 0; left -= 3) bytes.push(...digits(take, Math.min(left, 3)));
    else if (mode === 2) for (let left = take(9); left > 0; left -= 2) bytes.push(...pair(take, left));
    else if (mode === 4) for (let left = take(8); left > 0; left--) bytes.push(take(8));
    else throw new Error(`another mode: ${mode}`);
  }
  return Buffer.from(bytes).toString();
}

const digits = (take: (count: number) => number, count: number) =>
  Buffer.from(String(take([0, 4, 7, 10][count]!)).padStart(count, "0"));

function pair(take: (count: number) => number, left: number): Buffer {
  const value = take(left === 1 ? 6 : 11);
  return Buffer.from(
    left === 1 ? ALPHANUMERIC[value]! : ALPHANUMERIC[Math.floor(value / 45)]! + ALPHANUMERIC[value % 45],
  );
}

const toNumber = (bits: readonly number[]) => bits.reduce((number, bit) => number * 2 + bit, 0);
