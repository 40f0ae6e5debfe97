import pg from "pg";

/** How far the client of a channel had received changes when the connection was lost. */
export type LostChannel = {
  readonly position: string;
  /** The last reference of the client. Clients count across connections, so that of a join is higher. */
  readonly lastRef: number;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
};

export type LostChannelsOptions = {
  /** A direct connection of a login that is a member of changes_owner. */
  readonly connectionString: string;
  onError(error: Error): void;
};

type Row = LostChannel & { readonly identity: string };

const CONNECT_MILLISECONDS = 10_000;

/**
 * The lost channels of all processes, in the table changes.lost_channels: a client may connect to another process than before, such as
 * the next version of the service. If the database does not respond, they are not known, and their channels start over.
 */
export class LostChannels {
  readonly #pool: pg.Pool;
  readonly #onError: (error: Error) => void;
  /** Not written yet. */
  #unwritten: Row[] = [];
  #writing: Promise<void> | null = null;

  constructor({ connectionString, onError }: LostChannelsOptions) {
    this.#onError = onError;
    this.#pool = new pg.Pool({
      connectionString,
      max: 1,
      connectionTimeoutMillis: CONNECT_MILLISECONDS,
      application_name: "content-service channels",
      options: "-c role=changes_owner",
    });
    this.#pool.on("error", onError);
    this.#pool.on("connect", (client) => client.on("error", onError));
  }

  /** `identity` is a digest of the identity of the channel. */
  add(identity: string, lost: LostChannel): void {
    this.#unwritten.push({ identity, ...lost });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
  }

  /** Takes the lost channels with this identity out of the table. */
  async take(identity: string): Promise<readonly LostChannel[]> {
    await this.#writing;
    const { rows } = await this.#query(
      `delete from changes.lost_channels where identity = $1
       returning position, last_ref::float8 as "lastRef", extract(epoch from expires_at)::float8 * 1000 as "expiresAt"`,
      [identity],
    );
    return rows;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#pool.end();
  }

  /** Channels that are lost at the same time are written together. */
  async #write(): Promise<void> {
    await null;
    while (this.#unwritten.length > 0) {
      const rows = this.#unwritten.splice(0);
      await this.#query(
        `with expired as (delete from changes.lost_channels where expires_at < now())
         insert into changes.lost_channels (identity, position, last_ref, expires_at)
         select identity, position, last_ref, to_timestamp(expires_at / 1000)
         from unnest($1::text[], $2::text[], $3::bigint[], $4::float8[]) as lost (identity, position, last_ref, expires_at)`,
        [
          rows.map(({ identity }) => identity),
          rows.map(({ position }) => position),
          rows.map(({ lastRef }) => lastRef),
          rows.map(({ expiresAt }) => expiresAt),
        ],
      );
    }
  }

  async #query(text: string, values: readonly unknown[]): Promise<{ rows: any[] }> {
    try {
      return await this.#pool.query(text, values as unknown[]);
    } catch (error) {
      this.#onError(error as Error);
      return { rows: [] };
    }
  }
}
