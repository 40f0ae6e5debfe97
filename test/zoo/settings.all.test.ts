import { expect, test } from "vitest";
import { useRest } from "../support/rest-client.ts";
import { POLL } from "../support/until.ts";
import { useZoo } from "./zoo.ts";
import { testZoo } from "./zoo-tests.ts";

/** Settings of a database that change how text is read and written, or what SQL means. */
const UNUSUAL = {
  array_nulls: "off",
  backslash_quote: "on",
  bytea_output: "escape",
  check_function_bodies: "off",
  client_min_messages: "debug1",
  datestyle: "'SQL, DMY'",
  debug_parallel_query: "on",
  default_transaction_isolation: "'repeatable read'",
  enable_seqscan: "off",
  exit_on_error: "on",
  extra_float_digits: "-10",
  intervalstyle: "sql_standard",
  jit: "on",
  plan_cache_mode: "force_generic_plan",
  quote_all_identifiers: "on",
  row_security: "off",
  search_path: "pg_catalog",
  standard_conforming_strings: "off",
  synchronous_commit: "off",
  transform_null_equals: "on",
  xmlbinary: "hex",
};

testZoo(useZoo(UNUSUAL));

const { rest, service, sql } = useRest(
  {},
  `create function public.output() returns text language sql stable return current_setting('bytea_output');
   create function public.language() returns text language sql stable return current_setting('lc_messages');
   grant execute on function public.output, public.language to anon;`,
);

test("a form that the database sets while the service runs is replaced after a reload, and its language is not used", async () => {
  const output = async () => (await rest("rpc/output")).json;
  const { name } = service().database;
  await sql(`alter database ${name} set bytea_output = 'escape'; alter database ${name} set lc_messages = 'POSIX'`);
  // The connections that are opened from now on have it.
  await sql(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );
  await sql("notify pgrst, 'reload schema'");
  await expect.poll(output, POLL).toBe("hex");
  expect((await rest("rpc/language")).json).toBe("C");
});
