import { expect } from "vitest";
import type { ApiReply, ApiSent } from "../../../support/resource-client.ts";

type Ask = (request: string, sent?: ApiSent) => Promise<ApiReply>;

/** The requests of administrators whose responses the OpenAPI document describes. */
export async function useAdministration(ask: Ask): Promise<void> {
  const users = "/auth/admin/users";
  const as = "admin" as const;
  const body = { name: "Emil", email: "emil@test.example" };
  const made = await ask(`POST ${users}`, { as, body });
  expect(made.status).toBe(201);
  const user = `${users}/${made.json.id}`;
  await ask(`POST ${users}`, { as, body });
  await ask(`PATCH ${user}`, { as, body: { disabled: true } });
  await ask(`PATCH ${user}`, { as, body: { email: "ada@example.com" } });
  for (const request of [
    `GET ${users}`,
    `GET ${users}?page=x`,
    "GET /auth/admin/events",
    "GET /auth/admin/events?limit=x",
  ])
    await ask(request, { as });
  await ask(`GET ${user}`, { as });
  for (const path of [user, `${users}/0`]) {
    await ask(`DELETE ${path}/factors`, { as });
    await ask(`DELETE ${path}/sessions`, { as });
  }
  await ask(`GET ${users}/0`, { as });
  await ask(`PATCH ${users}/0`, { as, body: { disabled: true } });
  await ask(`DELETE ${users}/0`, { as });
  await ask(`DELETE ${users}/3`, { as });
  await ask(`DELETE ${user}?handOverTo=0`, { as });
  await ask(`DELETE ${user}`, { as });
}
