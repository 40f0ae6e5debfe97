import { expect, onTestFinished, test } from "vitest";
import { startTestService } from "../support/service.ts";
import { startTrackit } from "./trackit.ts";

test("a pre-config function that the login may not call stops the start with the grants that are missing", async () => {
  const trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none" });
  onTestFinished(() => trackit.stop());
  const { owner } = trackit.database;
  await owner.query(`
    create schema settings;
    create function settings.apply() returns void language sql as $$ select set_config('pgrst.db_max_rows', '1', true) $$;
    revoke execute on function settings.apply() from public`);
  const settings = {
    DATABASE_URL: trackit.loginUrl,
    MIGRATE: "off",
    DB_ANON_ROLE: trackit.role("anon"),
    PGRST_DB_PRE_CONFIG: "settings.apply",
    API_KEY_REQUIRED: "off",
    GRAPHQL_DOCUMENTS: "none",
  };
  const database = { ...trackit.database, drop: async () => {} };
  const refusal = await startTestService(settings, database).catch((error: Error) => error.message);
  const login = trackit.role("api");
  const grants = `grant usage on schema settings to ${login}; grant execute on function settings.apply() to ${login}`;
  expect(refusal).toBe(
    `pgrst.db_pre_config: permission denied for schema settings. The login role calls it: ${grants}`,
  );
  await owner.query(grants);
  const service = await startTestService(settings, database);
  onTestFinished(() => service.stop());
  expect(await (await fetch(`${service.url}/rest/v1/plans?select=code`)).json()).toHaveLength(1);
});
