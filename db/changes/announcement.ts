import type { Pool } from "pg";
import type { Logger } from "pino";

/** Whether an event trigger announces DDL to the service: its own, or one of a DBA that notifies `pgrst`, as for PostgREST. */
const IS_ANNOUNCED = `
  select exists (
    select from pg_event_trigger as e join pg_proc as p on p.oid = e.evtfoid
    where e.evtevent = 'ddl_command_end' and e.evtenabled in ('O', 'A') and p.prosrc ~* 'schema_changes|pgrst'
  ) as "isAnnounced"`;

const NOT_ANNOUNCED =
  "changes of the schema are not announced by this database: run notify pgrst, 'reload schema' after each, or send SIGUSR1 " +
  "to the service, or let a superuser create an event trigger";

const TRIGGER = `create function public.announce_ddl() returns event_trigger language plpgsql as $$ begin notify pgrst, 'reload schema'; end $$;
create event trigger announce_ddl on ddl_command_end execute function public.announce_ddl();`;

/** Says when the service cannot notice DDL, and what a DBA can do about it. */
export class SchemaAnnouncement {
  /** For `/health`; null if changes are announced. */
  fault: string | null = null;
  readonly #pool: Pick<Pool, "query">;
  readonly #log: Logger;

  constructor(pool: Pick<Pool, "query">, log: Logger) {
    this.#pool = pool;
    this.#log = log;
  }

  /** Checks it again, at start and after a reload of the schema. */
  async check(): Promise<void> {
    const { rows } = await this.#pool.query<{ isAnnounced: boolean }>(IS_ANNOUNCED);
    const fault = rows[0]!.isAnnounced ? null : NOT_ANNOUNCED;
    if (fault !== null && this.fault === null) this.#log.warn({ fix: TRIGGER }, fault);
    this.fault = fault;
  }
}
