import { beforeAll, expect, test } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import type { Code } from "../../db/catalog/code.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { anon, NO_CODE, useTransactionsDatabase } from "../support/transactions.ts";

/** Reads that run the code of a type which no text names: its name is joined from parts. */
const READS = {
  "pg_input_is_valid of a domain": "select valid_domain()",
  "pg_input_error_info of a domain": "select error_of_domain()",
  "domain_in, with the oid of a domain": "select domain_in('x', ('lea' || 'king')::regtype, -1) is null",
  "array_in, with the oid of a domain": "select array_in('{x}', ('lea' || 'king')::regtype, -1)",
  "record_in, with the oid of a composite type": "select record_in('(x)', ('ro' || 'w_of')::regtype, -1)",
  "range_in, with the oid of a range": "select range_in('[x,y]', ('spa' || 'n_of')::regtype, -1)",
  "multirange_in, with the oid of a multirange": "select multirange_in('{[x,y]}', ('spa' || 'ns_of')::regtype, -1)",
  "satisfies_hash_partition, with the oid of a table": "select in_partition()",
} as const;

/** Reads that compare values with functions of the DBA, which belong to an operator class. */
const COMPARISONS = {
  "order by a type with an operator class": "select pair from pairs order by pair",
  "a scan of an index with an operator class": "select word from indexed where word >= 'a'",
} as const;

const database = useTransactionsDatabase(`
  create function leak() returns boolean language plpgsql volatile as $$
  begin
    perform set_config('app.left', 'behind', false);
    return true;
  end $$;
  create domain leaking as text check (public.leak());
  create type row_of as (word leaking);
  create type span_of as range (subtype = leaking, multirange_type_name = spans_of);
  create function valid_domain() returns boolean language sql stable
    return pg_input_is_valid('x', 'lea' || 'king');
  create function error_of_domain() returns text language sql stable
    return (pg_input_error_info('x', 'lea' || 'king')).message;

  create type pair as (a text, b text);
  create function pair_cmp(x pair, y pair) returns int language plpgsql immutable as $$
  begin perform public.leak(); return 0; end $$;
  create function word_hash(x text, seed bigint) returns bigint language plpgsql immutable as $$
  begin perform public.leak(); return 1; end $$;
  create function text_cmp(x text, y text) returns int language plpgsql immutable as $$
  begin perform public.leak(); return -1; end $$;
  create function pair_less(x pair, y pair) returns boolean language sql immutable return pair_cmp(x, y) < 0;
  create function pair_same(x pair, y pair) returns boolean language sql immutable return pair_cmp(x, y) = 0;
  create operator <<< (leftarg = pair, rightarg = pair, function = pair_less);
  create operator === (leftarg = pair, rightarg = pair, function = pair_same);
  create operator >>> (leftarg = pair, rightarg = pair, function = pair_less);
  create operator class pair_order default for type pair using btree as
    operator 1 <<<, operator 3 ===, operator 5 >>>, function 1 pair_cmp(pair, pair);
  create operator class leaking_hash for type text using hash as
    operator 1 = (text, text), function 1 hashtext(text), function 2 word_hash(text, bigint);
  create operator class leaking_order for type text using btree as
    operator 4 >= (text, text), function 1 text_cmp(text, text);
  create table indexed (word text);
  insert into indexed select 'word ' || i from generate_series(1, 10) as i;
  create index on indexed (word leaking_order);
  do $$ begin execute format('alter database %I set enable_seqscan = off', current_database()); end $$;
  create table pairs (pair pair);
  insert into pairs values (('a', 'b')), (('c', 'd'));
  create table hashed (word text) partition by hash (word leaking_hash);
  create table hashed_1 partition of hashed for values with (modulus 1, remainder 0);
  create function in_partition() returns boolean language sql stable
    return satisfies_hash_partition(('has' || 'hed')::regclass, 1, 0, 'x'::text);

  grant all on all tables in schema public to anon;
  grant execute on all functions in schema public to anon;`);

/** An operator class for a built-in type: every statement that compares such values runs its functions. */
const LABELS = `
  create table labels (label json);
  insert into labels values ('1'), ('2');
  grant select on labels to anon;
  create function json_cmp(x json, y json) returns int language plpgsql immutable as $$
  begin perform public.leak(); return 0; end $$;
  create function json_less(x json, y json) returns boolean language sql immutable return json_cmp(x, y) < 0;
  create function json_same(x json, y json) returns boolean language sql immutable return json_cmp(x, y) = 0;
  create operator <<< (leftarg = json, rightarg = json, function = json_less);
  create operator === (leftarg = json, rightarg = json, function = json_same);
  create operator >>> (leftarg = json, rightarg = json, function = json_less);
  create operator class labels_order default for type json using btree as
    operator 1 <<<, operator 3 ===, operator 5 >>>, function 1 json_cmp(json, json);
  grant execute on all functions in schema public to anon;`;

const LEFT = "select nullif(current_setting('app.left', true), '')";

let code = NO_CODE;
beforeAll(async () => {
  code = await currentCode();
});

async function currentCode(): Promise<Code> {
  const scope = { schemas: ["public"], extraSearchPath: [] };
  const rows = await parseCatalog(await readCatalog(database().owner as never, scope));
  return (await buildCatalog(rows, 1)).code;
}

/** What the next caller sees of a read that leaves state. */
async function leftBy(text: string, known: Code): Promise<string | null> {
  const db = database().open();
  db.transactions.follow(known);
  await db.run(anon, [text]);
  return (await db.row(anon, LEFT))[0]!;
}

const CASES = Object.entries({ ...READS, ...COMPARISONS });

test.each(CASES)("state does not survive %s", async (_, text) => {
  expect(await leftBy(text, code)).toBe(null);
});

test.each(CASES)("without cleaning, the next caller would see the state of %s", async (_, text) => {
  expect(await leftBy(text, NO_CODE)).toBe("behind");
});

test("state does not survive a comparison of values of a built-in type", async () => {
  await database().owner.query(LABELS);
  const text = "select label from labels order by label";
  expect(await leftBy(text, NO_CODE)).toBe("behind");
  expect(await leftBy(text, await currentCode())).toBe(null);
});

test("plain reads beside such types need no cleaning", () => {
  const reads = ["select id from users order by name", "select a.title from articles as a where a.author_id = 1"];
  expect(reads.filter((text) => code.isIn(text))).toEqual([]);
});
