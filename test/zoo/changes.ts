import { expect } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { until } from "../support/until.ts";
import { byType, type Cell, type Fault, filterText, isSame, parseExactly, type Zoo } from "./zoo.ts";

const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&")}"`;

/** What channels and streams of changes do differently: in rows, old rows and filters. Each value is copied, touched and deleted. */
export async function* changeFaults(zoo: Zoo): AsyncGenerator<Fault> {
  const { cells, service } = zoo;
  const client = await new ChannelClient(service, "127.0.0.1").open();
  const received: any[] = [];
  client.socket.on("message", (data) => received.push(parseExactly(String(data))));
  const join = async (topic: string, filter?: string) =>
    client.ask(topic, "phx_join", {
      config: { postgres_changes: [{ event: "*", schema: "public", table: "cages", ...(filter && { filter }) }] },
    });
  const changesOf = (topic: string) =>
    received
      .filter((message) => message[2] === `realtime:${topic}` && message[3] === "postgres_changes")
      .map((message) => message[4].data);
  const refused = new Map<Cell, unknown>();
  expect(await join("all")).toMatchObject({ status: "ok" });
  for (const cell of cells) {
    const reply = await join(String(cell.id), `${cell.column}=eq.${quoted(filterText(cell))}`);
    if (reply.status !== "ok") refused.set(cell, reply.response);
  }
  const path = `${service.url}/rest/v1/cages`;
  const stream = new EventStreamClient(path);
  const filtered = byType(cells).map((group) => {
    const any = group.map((cell) => `${cell.column}.eq.${quoted(filterText(cell))}`);
    return { group, events: new EventStreamClient(`${path}?or=${encodeURIComponent(`(${any})`)}`) };
  });
  for (const { events } of [{ events: stream }, ...filtered])
    await until(
      () => events.isEnded || events.events.length > 0,
      () => events.text,
    );

  // A copy of each row, in the same order.
  const columns = [...new Set(cells.map(({ column }) => column))];
  const copies = await zoo.sql(
    `insert into cages (${columns}) select ${columns} from cages where id <= ${cells.length} order by id returning id`,
  );
  const copyOf = (cell: Cell) => copies[cell.id - 1].id;
  const ids = copies.map(({ id }) => id);
  await zoo.sql(`update cages set touched = 1 where id = any ($1)`, ids);
  await zoo.sql(`delete from cages where id = any ($1)`, ids);
  const complete = cells.length * 3;
  const systemOf = (topic: string) =>
    received.find(
      (message) => message[2] === `realtime:${topic}` && message[3] === "system" && message[4].status === "error",
    )?.[4].message;
  // Other rows may be equal to it: paths of as many points are.
  const missingOf = (cell: Cell) => {
    const found = changesOf(String(cell.id)).map(
      ({ type, record, old_record }) => `${type} ${JSON.stringify((record ?? old_record)?.id)}`,
    );
    return ["INSERT", "UPDATE", "DELETE"].filter((type) => !found.includes(`${type} ${copyOf(cell)}`));
  };
  const answered = cells.filter((cell) => !refused.has(cell));
  const wait = () => [
    ...(systemOf("all") === undefined && changesOf("all").length < complete ? ["all"] : []),
    ...answered
      .filter((cell) => systemOf(String(cell.id)) === undefined && missingOf(cell).length > 0)
      .map(({ id }) => id),
  ];
  // Without all of them, there would be differences of this machine.
  const lacking = () =>
    filtered.filter(
      ({ group, events }) =>
        events.status === 200 && events.events.filter(({ event }) => /^[A-Z]+$/.test(event)).length < group.length * 3,
    );
  await until(
    () => wait().length === 0 && lacking().length === 0,
    () => `no changes for ${wait()}; ${lacking().map(({ group, events }) => [group[0]!.type, events.isEnded])}`,
    () => received.length + filtered.reduce((sum, { events }) => sum + events.text.length, 0),
  );
  await stream.take(complete, "INSERT", "UPDATE", "DELETE");

  const sent = eventsIn(stream.text);
  const ofChannel = rowsOf(changesOf("all").map(({ type, record, old_record }) => [type, record, old_record]));
  const ofStream = rowsOf(sent.map(([type, data]) => [type, data.new, data.old]));
  const snapshot: any[] = sent.find(([type]) => type === "snapshot")![1];
  for (const cell of cells) {
    const { id, column, json } = cell;
    for (const what of ["INSERT new", "UPDATE new", "UPDATE old", "DELETE old"]) {
      const row = `${what} ${copyOf(cell)}`;
      if (!isSame(ofChannel.get(row)?.[column], json))
        yield [`Channel ${what.split(" ")[1]}`, cell, ofChannel.get(row)?.[column]];
      if (!isSame(ofStream.get(row)?.[column], json))
        yield [`Stream ${what.split(" ")[1]}`, cell, ofStream.get(row)?.[column]];
    }
    const read = snapshot.find((row) => String(JSON.stringify(row.id)) === String(id))?.[column];
    if (!isSame(read, json)) yield ["Stream snapshot", cell, read];
    const missing = missingOf(cell);
    if (missing.length > 0) yield ["Channel filter", cell, refused.get(cell) ?? systemOf(String(id)) ?? missing];
  }
  for (const { group, events } of filtered) {
    const rows = rowsOf(eventsIn(events.text).map(([type, data]) => [type, data.new, data.old]));
    for (const cell of group) {
      const missing = ["INSERT new", "UPDATE new", "DELETE old"].filter((what) => !rows.has(`${what} ${copyOf(cell)}`));
      if (missing.length > 0) yield ["Stream filter", cell, events.status === 200 ? missing : events.text];
    }
  }
}

/** The events of a stream with their data, whose numbers keep their digits. */
const eventsIn = (text: string): (readonly [event: string, data: any])[] =>
  [...text.matchAll(/^event: (\w+)\n((?:data: .*\n)+)/gm)].map(([, event, data]) => [
    event!,
    parseExactly(data!.replace(/^data: /gm, "")),
  ]);

/** The rows of changes by `"UPDATE old 7"`. */
function rowsOf(changes: readonly (readonly [type: string, row: any, old: any])[]): ReadonlyMap<string, any> {
  const entries = changes.flatMap(([type, row, old]) => [
    ...(row ? [[`${type} new ${JSON.stringify(row.id)}`, row] as const] : []),
    ...(old ? [[`${type} old ${JSON.stringify(old.id)}`, old] as const] : []),
  ]);
  return new Map(entries);
}
