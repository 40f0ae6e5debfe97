import pg from "pg";
import { expect, inject, test } from "vitest";
import { NO_APPLICATION } from "../../../app/load.ts";
import { createTestDatabase } from "../../support/database.ts";
import { send, sentJson } from "../../support/http-client.ts";
import { startTestService } from "../../support/service.ts";

const PASSWORD = "Correct-Horse-8!";

test("in a database whose encoding is not UTF8, ASCII e-mails sign up and in, and others are refused", async () => {
  const cluster = new pg.Client({ connectionString: inject("clusterUrl") });
  await cluster.connect();
  await cluster.query("create database latin1 encoding 'LATIN1' locale 'C' template template0");
  await cluster.end();
  const database = await createTestDatabase(inject("clusterUrl"), "latin1");
  const settings = { MIGRATE: "modules", MODULES: "auth", AUTH_USER_ID: "uuid" };
  const service = await startTestService(settings, database, undefined, undefined, { definition: NO_APPLICATION });
  try {
    const post = (path: string, body: object) =>
      send(service.url + path, { method: "POST", ...sentJson({ body: JSON.stringify(body) }) });
    const account = { email: "ada@example.com", password: PASSWORD };
    const signedUp = await post("/auth/v1/signup", account);
    const signedIn = await post("/auth/v1/token?grant_type=password", { ...account, email: "ADA@Example.com" });
    expect([signedUp.status, signedIn.json.user?.id]).toEqual([200, signedUp.json.user.id]);
    expect((await post("/auth/login", { username: account.email, password: PASSWORD })).status).toBe(200);
    for (const email of [
      "jos\u00e9@example.com",
      "jose\u0301@example.com",
      "ann@xn--bcher-kva.example",
      "\u0430@x.org",
    ]) {
      const refused = await post("/auth/v1/signup", { email, password: PASSWORD });
      expect([refused.status, refused.json.error_code]).toEqual([400, "validation_failed"]);
      expect([400, 401]).toContain((await post("/auth/login", { username: email, password: PASSWORD })).status);
    }
  } finally {
    await service.stop();
  }
});
