import { crc32, deflateSync } from "node:zlib";

/** Readers expect a margin of four modules; a sixth of the modules may be unreadable. */
const OPTIONS = { ecc: "M", border: 4 } as const;
/** Pixels of a module. */
const SCALE = 4;

/** Loaded with the first code. */
const library = () => import("uqr");

export const svgOf = async (text: string): Promise<string> => (await library()).renderSVG(text, OPTIONS);

/** `data:image/png;base64,…`, in grey. */
export async function pngOf(text: string): Promise<string> {
  const { data, size } = (await library()).encode(text, OPTIONS);
  // Each row of a PNG begins with its filter, which is none.
  const rows = data.map((modules) => [0, ...repeated(modules.map((isDark) => (isDark ? 0 : 255)))]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size * SCALE, 0);
  header.writeUInt32BE(size * SCALE, 4);
  header[8] = 8;
  const png = [
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.from(repeated(rows).flat()))),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return `data:image/png;base64,${Buffer.concat(png).toString("base64")}`;
}

const repeated = <Item>(items: readonly Item[]): Item[] => items.flatMap((item) => new Array<Item>(SCALE).fill(item));

/** Source: PNG specification, 5.3, Chunk layout. */
function chunk(type: string, data: Buffer): Buffer {
  const content = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(content));
  return Buffer.concat([length, content, check]);
}
