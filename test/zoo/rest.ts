import { byType, type Cell, each, type Fault, filterText, isSame, orNone, parseExactly, type Zoo } from "./zoo.ts";

const BACK = { method: "POST", prefer: "return=representation" } as const;

/** What /rest/v1 does differently from Postgres: in JSON, NDJSON and CSV, read and written, in filters and orders. */
export async function* restFaults(zoo: Zoo): AsyncGenerator<Fault> {
  const { cells } = zoo;
  const list = `cages?id=lte.${cells.length}&order=id`;
  const read = async (accept: string) => (await zoo.rest(list, { headers: { accept } })).text;
  const rows = parseExactly(await read("application/json"));
  const lines = (await read("application/x-ndjson")).trimEnd().split("\n").map(parseExactly);
  const csv = parseCsv(await read("text/csv"));
  const faults: Fault[] = [];
  for (const cell of cells) {
    const { id, column, json, text } = cell;
    if (!isSame(rows[id - 1][column], json)) yield ["REST read", cell, rows[id - 1][column]];
    if (!isSame(lines[id - 1][column], json)) yield ["NDJSON", cell, lines[id - 1][column]];
    const field = csv[id]![csv[0]!.indexOf(column)];
    if (field !== text) yield ["CSV read", cell, field];
  }
  await each(cells, async (cell) => faults.push(...(await faultsOf(zoo, cell))));
  for (const group of byType(cells)) {
    const [{ column }] = group as [Cell];
    const ids = group.map(({ id }) => id);
    const reply = await zoo.rest(`cages?select=id&id=in.(${ids})&order=${column},id`);
    const sorted = await orNone(zoo.sql(`select id from cages where id in (${ids}) order by ${column}, id`));
    if (JSON.stringify(reply.json) !== JSON.stringify(sorted))
      for (const cell of group) yield ["REST order", cell, reply.text];
  }
  yield* faults;
}

async function faultsOf(zoo: Zoo, cell: Cell): Promise<Fault[]> {
  const { column, json, text } = cell;
  const faults: Fault[] = [];
  const body = `{${JSON.stringify(column)}:${json}}`;
  const written = await zoo.rest("cages?select=id", { ...BACK, body });
  const wrong = written.json?.[0] ? await zoo.compare(cell, written.json[0].id) : written.text;
  if (wrong !== null) faults.push(["REST write", cell, wrong]);
  const record = `${column}\n"${text.replaceAll('"', '""')}"\n`;
  const imported = await zoo.rest("cages?select=id", {
    ...BACK,
    body: record,
    headers: { "content-type": "text/csv" },
  });
  const other = imported.json?.[0] ? await zoo.compare(cell, imported.json[0].id) : imported.text;
  if (other !== null) faults.push(["CSV write", cell, other]);
  const condition = `${column}=eq.${encodeURIComponent(filterText(cell))}`;
  const found = await zoo.rest(`cages?select=id&id=lte.${zoo.cells.length}&${condition}&order=id`);
  const ids = found.json?.map?.(({ id }: any) => id);
  if (!ids?.includes(cell.id) || String(ids) !== String(await zoo.equal(cell)))
    faults.push(["REST filter", cell, found.text]);
  return faults;
}

/** The records of CSV, the first of which has the names. */
export function parseCsv(text: string): string[][] {
  const records: string[][] = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/g)) {
    records.at(-1)!.push(quoted?.replaceAll('""', '"') ?? plain!);
    if (end === "\n") records.push([]);
  }
  return records;
}
