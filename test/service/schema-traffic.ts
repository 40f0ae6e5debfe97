import { createClient } from "graphql-ws";
import { WebSocket } from "ws";
import { ChannelClient } from "../support/channel-socket.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { sendRest } from "../support/rest-client.ts";
import type { TestService } from "../support/service.ts";
import { until } from "../support/until.ts";

/** What was wrong: who found it, during which change of the schema. */
export type Fault = { readonly who: string; readonly during: string; readonly found: string };

/** A row of the table `things`, as an interface shows it. `label`, `mood` and `size` never change. */
type Thing = Readonly<Record<string, unknown>>;

/** One of the two names of the column with the size. */
const SIZE = "7";
const sizeOf = (row: Thing) => row.extra ?? row.other;

/** What is wrong with a row that was asked for when `n` was at least `least`; null if nothing is. */
function wrongWith(row: Thing | undefined, least: number, mustHaveAll: boolean): string | null {
  if (!row) return "the row is missing";
  const { id, n, label, mood } = row;
  const isRight =
    Number(id) === 1 &&
    Number(n) >= least &&
    label === "one" &&
    String(mood).toLowerCase() === "new" &&
    String(sizeOf(row) ?? (mustHaveAll ? "none" : SIZE)) === SIZE;
  return isRight ? null : `${JSON.stringify(row)}, n is at least ${least}`;
}

/** Requests of each interface, one after the other, while the schema changes. Each names only what every schema has. */
const REQUESTS: Readonly<Record<string, (at: TestService) => Promise<Thing[]>>> = {
  "all columns": (at) => rest(at, "things?id=eq.1"),
  "a filter by an enum": (at) => rest(at, "things?select=id,n,label,mood&mood=eq.new&id=eq.1"),
  "an embedded table": async (at) =>
    (await rest(at, "parts?select=things(id,n,label,mood)")).map(({ things }) => things as Thing),
  "an export": async (at) => {
    const reply = await sendRest(at, "things?select=id,n,label,mood&id=eq.1", {
      headers: { accept: "application/x-ndjson" },
    });
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
    return [JSON.parse(reply.text)];
  },
  "an update": (at) => rest(at, "things?id=eq.1", { method: "PATCH", body: { label: "one" } }),
  "an upsert": (at) =>
    rest(at, "things?on_conflict=id", {
      body: [{ id: 1, label: "one", mood: "new" }],
      prefer: "resolution=merge-duplicates,return=representation",
    }),
  "an insert": async (at) => {
    const [row] = await rest(at, "things", { body: { id: 2, label: "one" } });
    await rest(at, "things?id=eq.2", { method: "DELETE" });
    return [{ ...row, id: 1, n: Number.POSITIVE_INFINITY }];
  },
  "a function": (at) => rest(at, "rpc/current_thing", { body: {} }),
  "a GraphQL query": async (at) => [(await gql(at, `{ thing(id: 1) { ${FIELDS} shout } }`)).thing],
  "a GraphQL list": async (at) =>
    (
      await gql(
        at,
        `{ things(filter: { mood: { equalTo: new }, id: { equalTo: 1 } }) { edges { node { ${FIELDS} } } } }`,
      )
    ).things.edges.map(({ node }: any) => node),
  "a GraphQL mutation": async (at) => {
    const query = `mutation { updateThing(id: 1, input: { label: "one" }) { ${FIELDS} shout } }`;
    const { data, errors = [] } = await at.gql(query, { as: "ada" });
    // Another transaction gives the function the row that was written, which may no longer be one of the table.
    const isOfOldRow = errors[0]?.path?.[1] === "shout" && errors[0].extensions.code === "VALIDATION_ERROR";
    if (!isOfOldRow && (errors.length > 0 || data.updateThing.shout !== "ONE"))
      throw new Error(JSON.stringify({ data, errors }));
    return [data.updateThing];
  },
};

const FIELDS = "id n label mood";

async function rest(at: TestService, path: string, sent: Parameters<typeof sendRest>[2] = {}): Promise<Thing[]> {
  const reply = await sendRest(at, path, { prefer: "return=representation", ...sent, as: "service" });
  if (reply.status >= 300) throw new Error(`${reply.status} ${reply.text}`);
  return [reply.json].flat();
}

async function gql(at: TestService, query: string): Promise<any> {
  const { status, data, errors } = await at.gql(query, { as: "ada" });
  if (status !== 200 || errors) throw new Error(`${status} ${JSON.stringify(errors)}`);
  return data;
}

/**
 * What a subscriber has got: `n` of a change, or null where it had to read the row again, which had been written `written` times.
 */
type Received = { readonly n: number | null; readonly written: number; readonly during: string };

const GRAPHQL = "a GraphQL subscription";

/** Subscribes to the updates of the row. After a gap, a subscriber goes on by the documented way. */
const SUBSCRIBERS: Readonly<
  Record<string, (at: TestService, got: (row: Thing | null) => void) => Promise<() => void>>
> = {
  "a stream": async (at, got) => {
    const headers = { apikey: at.service.tokens.issueKey("service_role") };
    let client: EventStreamClient;
    let read = 0;
    let isFirst = true;
    const open = (lastEventId?: string) => {
      client = new EventStreamClient(`${at.url}/rest/v1/things?id=eq.1`, {
        headers,
        ...(lastEventId && { lastEventId }),
      });
      read = 0;
    };
    open();
    const timer = setInterval(() => {
      for (const { event, data } of client.events.slice(read)) {
        read++;
        if (event === "UPDATE") got(data.new);
        else if (event === "snapshot" && isFirst) isFirst = false;
        else if (event === "snapshot" || event === "gap") got(null);
        else throw new Error(`${event} ${JSON.stringify(data)}`);
      }
      if (client.isEnded) open(client.lastEventId);
    }, 20);
    await client!.take(1, "snapshot");
    return () => {
      clearInterval(timer);
      client.close();
    };
  },
  "a channel": async (at, got) => {
    const client = await new ChannelClient(at, "127.0.0.1").open();
    const config = { postgres_changes: [{ event: "UPDATE", schema: "public", table: "things", filter: "id=eq.1" }] };
    const join = () =>
      client.ask("things", "phx_join", { config, access_token: at.service.tokens.issueKey("service_role") });
    let ready = false;
    client.socket.on("message", (text) => {
      const [, , , event, payload] = JSON.parse(String(text));
      if (event === "postgres_changes") {
        if (payload.data.errors) throw new Error(JSON.stringify(payload.data));
        got(payload.data.record);
      } else if (event === "system") {
        if (payload.status === "error" || payload.resumed === false) {
          if (ready) got(null);
          ready = true;
        }
      } else if (event === "phx_error" || event === "phx_close") {
        got(null);
        void join();
      }
    });
    await join();
    await until(
      () => ready,
      () => "the channel is not ready",
    );
    return () => client.socket.terminate();
  },
  [GRAPHQL]: async (at, got) => {
    const Authorization = `Bearer ${at.token("ada")}`;
    const client = createClient({
      ...{ url: `${at.url.replace("http", "ws")}/graphql`, webSocketImpl: WebSocket },
      connectionParams: { Authorization },
    });
    let stopped = false;
    const subscribe = () => {
      client.subscribe<any>(
        { query: `subscription { onThingUpdated(id: 1) { ${FIELDS} } }` },
        {
          next: ({ data, errors }) => got(errors ? { errors: JSON.stringify(errors) } : data.onThingUpdated),
          error: (error) => {
            if (!JSON.stringify(error).includes("CHANGES_MISSED")) return got({ errors: JSON.stringify(error) });
            got(null);
            if (!stopped) subscribe();
          },
          complete: () => {
            if (!stopped) got({ errors: "complete" });
          },
        },
      );
    };
    subscribe();
    await until(
      () => at.service.open().subscriptions > 0,
      () => "the subscription is not there",
    );
    return () => {
      stopped = true;
      void client.dispose();
    };
  },
};

/** Requests and subscribers of every interface, and a writer that counts in the column `n`. */
export class SchemaTraffic {
  readonly faults: Fault[] = [];
  readonly #at: TestService;
  readonly #counts: Record<string, number> = {};
  readonly #received: Record<string, Received[]> = {};
  readonly #ends: (() => void)[] = [];
  #loops: Promise<unknown> = Promise.resolve();
  #first = 0;
  #written = 0;
  #during = "nothing";
  /** Rows up to this number may lack the size, because its column has been dropped since, and another one has its name. */
  #lacking = 0;
  #isStopped = false;

  constructor(at: TestService) {
    this.#at = at;
  }

  async start(): Promise<void> {
    await this.#count();
    this.#first = this.#written;
    for (const [who, subscribe] of Object.entries(SUBSCRIBERS)) {
      const received: Received[] = [];
      this.#received[who] = received;
      const got = (row: Thing | null) => {
        const wrong = row && wrongWith(row, 0, who !== GRAPHQL && Number(row.n) > this.#lacking);
        if (wrong) this.#fault(who, wrong);
        received.push({ n: row && Number(row.n), written: this.#written, during: this.#during });
      };
      this.#ends.push(await subscribe(this.#at, got));
    }
    const loops = Object.entries(REQUESTS).map(([who, ask]) => this.#ask(who, ask));
    this.#loops = Promise.all([...loops, this.#write()]);
  }

  /** Runs a change of the schema, and waits until each interface has been used after it. */
  async during(name: string, change: () => Promise<unknown>): Promise<void> {
    this.#during = name;
    if (name === "a column is replaced") this.#lacking = Number.POSITIVE_INFINITY;
    await change();
    // One write may have been committed before the change of the schema, and is not counted yet.
    if (name === "a column is replaced") this.#lacking = this.#written + 1;
    const before = { ...this.#counts };
    const waits = () => Object.keys(this.#counts).filter((who) => this.#counts[who]! < before[who]! + 3);
    await until(
      () => waits().length === 0,
      () => `${name}: ${waits()}`,
    );
  }

  /** Ends the requests, and waits until each subscriber has got the last change. */
  async complete(): Promise<void> {
    await this.#endRequests();
    this.#during = "the end";
    const late = () => Object.keys(this.#received).filter((who) => this.#received[who]!.at(-1)?.n !== this.#written);
    const goOn = async () => {
      const who = late();
      // A change after its gap shows that it goes on.
      if (who.some((each) => this.#received[each]!.at(-1)?.n === null)) await this.#count();
      return who.length === 0;
    };
    await until(goOn, () => `the last change has not reached ${late()}`);
    for (const [who, received] of Object.entries(this.#received)) this.#checkOrder(who, received);
  }

  async stop(): Promise<void> {
    await this.#endRequests();
    for (const end of this.#ends) end();
  }

  async #endRequests(): Promise<void> {
    this.#isStopped = true;
    await this.#loops;
  }

  /**
   * Each change follows the one before, unless the subscriber has read the row since. A subscription of GraphQL reads it after a
   * change, and may see a later one already.
   */
  #checkOrder(who: string, received: readonly Received[]): void {
    let last = this.#first;
    let covered = last;
    for (const { n, written, during } of received) {
      if (n === null) covered = written;
      else if (n > covered && n !== last + 1 && !(who === GRAPHQL && n >= last))
        this.faults.push({ who, during, found: `${n} after ${last}` });
      last = Math.max(n ?? 0, covered);
    }
  }

  #fault(who: string, found: string): void {
    this.faults.push({ who, during: this.#during, found });
  }

  async #ask(who: string, ask: (at: TestService) => Promise<Thing[]>): Promise<void> {
    this.#counts[who] = 0;
    while (!this.#isStopped) {
      const least = this.#written;
      try {
        const rows = await ask(this.#at);
        const wrong = wrongWith(rows[0], least, who === "all columns");
        if (wrong) this.#fault(who, wrong);
      } catch (error) {
        this.#fault(who, (error as Error).message);
      }
      this.#counts[who]!++;
    }
  }

  async #write(): Promise<void> {
    this.#counts["the writer"] = 0;
    while (!this.#isStopped) {
      await this.#count();
      this.#counts["the writer"]!++;
    }
  }

  async #count(): Promise<void> {
    const [row] = (await this.#at.database.owner.query("update public.things set n = n + 1 where id = 1 returning n"))
      .rows;
    this.#written = Number(row.n);
  }
}
