import { expect, test } from "vitest";
import { evaluateWithoutUser } from "../../../parts/advisor/user-conditions.ts";

const FUNCTIONS = new Map([
  [
    "auth.uid",
    " select coalesce(nullif(current_setting('request.jwt.claim.sub', true), ''), (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'))::uuid ",
  ],
  ["auth.jwt", "RETURN (NULLIF(current_setting('request.jwt.claims'::text, true), ''::text))::jsonb"],
  ["auth.role", "BEGIN ATOMIC\n SELECT (auth.jwt() ->> 'role'::text) AS role;\nEND"],
  ["app.me", "begin return nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid; end;"],
  ["app.endless", "select app.endless()"],
  ["app.first", "select id from users limit 1"],
]);

const NO_ORG = "NULLIF(current_setting('app.org'::text, true), ''::text)";
const SUB = "((current_setting('request.jwt.claims'::text, true))::jsonb ->> 'sub'::text)";

test.each<[condition: string, holds: "true" | "false" | "unknown"]>([
  [`((org_id = (${NO_ORG})::uuid) OR (${NO_ORG} IS NULL))`, "true"],
  ["((owner = auth.uid()) OR (auth.uid() IS NULL))", "true"],
  ["((( SELECT auth.uid() AS uid) IS NULL) OR (owner = ( SELECT auth.uid() AS uid)))", "true"],
  [`((owner = (${SUB})::uuid) OR (NULLIF(${SUB}, ''::text) IS NULL))`, "true"],
  ["((app.me() IS NULL) OR (owner = app.me()))", "true"],
  ["COALESCE((owner = auth.uid()), true)", "true"],
  ["((owner = auth.uid()) IS NOT FALSE)", "true"],
  ["(NOT ((owner = auth.uid()) IS TRUE))", "true"],
  ["(COALESCE(current_setting('app.org'::text, true), ''::text) = ''::text)", "true"],
  ["((auth.jwt() ->> 'org'::text) IS NULL)", "true"],
  ["((auth.uid() IS NOT DISTINCT FROM NULL::uuid) OR (owner = auth.uid()))", "true"],
  ["((EXISTS ( SELECT 1 FROM public.members m WHERE (m.id = auth.uid()))) OR (auth.uid() IS NULL))", "true"],

  ["(owner = auth.uid())", "false"],
  ["((auth.uid() IS NOT NULL) AND (owner = auth.uid()))", "false"],
  ["((auth.uid() IS NULL) AND (owner = auth.uid()))", "false"],
  ["(NOT (owner = auth.uid()))", "false"],
  ["((auth.jwt() ->> 'org'::text) = (org)::text)", "false"],

  // What depends on the row is open: rows without an owner may be meant for everyone.
  ["((owner = auth.uid()) OR is_public)", "unknown"],
  ["((owner IS NULL) OR (owner = auth.uid()))", "unknown"],
  ["(NOT (owner IS DISTINCT FROM auth.uid()))", "unknown"],
  ["(COALESCE(auth.uid(), owner) = owner)", "unknown"],
  ["(CASE WHEN (auth.uid() IS NULL) THEN true ELSE false END)", "unknown"],
  // An anonymous caller has a role.
  ["(auth.role() = 'anon'::text)", "unknown"],
  ["((auth.jwt() ->> 'role'::text) IS NULL)", "unknown"],
  ["(((auth.jwt() -> 'app'::text) ->> 'role'::text) IS NULL)", "true"],
  ["(auth.jwt() IS NULL)", "false"],
  ["(current_setting('app.settings.open'::text, true) IS NULL)", "unknown"],
  ["(current_setting('request.method'::text, true) IS NULL)", "unknown"],
  ["(EXISTS ( SELECT 1 FROM public.members m WHERE (m.id = auth.uid())))", "unknown"],
  ["(owner = ANY (ARRAY[auth.uid()]))", "unknown"],
  ["(app.endless() IS NULL)", "unknown"],
  ["(app.first() IS NULL)", "unknown"],
  ['("app"."unknown"() IS NULL)', "unknown"],
  ["(E'\\\\' = name)", "unknown"],
])("%s, without a user: %s", (condition, holds) => {
  expect(evaluateWithoutUser(condition, FUNCTIONS).holds).toBe(holds);
});

test.each([
  ["(owner = auth.uid())", true],
  [`(org_id = (${NO_ORG})::uuid)`, true],
  ["((app.me() IS NULL) OR true)", true],
  ["(EXISTS ( SELECT 1 FROM public.members m WHERE (m.id = auth.uid())))", true],
  ["(status = 'PUBLISHED'::text)", false],
  ["(current_setting('app.settings.open'::text, true) = 'on'::text)", false],
])("%s reads the user: %s", (condition, readsUser) => {
  expect(evaluateWithoutUser(condition, FUNCTIONS).readsUser).toBe(readsUser);
});

test.each([
  ["((owner = auth.uid()) OR (auth.uid() IS NULL))", true],
  ["((EXISTS ( SELECT 1 FROM public.members m WHERE (m.id = auth.uid()))) OR (auth.uid() IS NULL))", true],
  ["(auth.uid() IS NULL)", false],
  ["((auth.uid() IS NULL) AND true)", false],
])("%s reads more than the user: %s", (condition, readsMore) => {
  expect(evaluateWithoutUser(condition, FUNCTIONS).readsMore).toBe(readsMore);
});
