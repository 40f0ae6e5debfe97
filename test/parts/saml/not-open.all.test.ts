import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { doctor } from "../../../parts/advisor/doctor/doctor.ts";
import { PROJECT } from "../../support/command.ts";
import { oidcEntry, useFederated } from "../federated/support.ts";

const METADATA = "https://corp.example/metadata";
const NOT_OPEN = "kind is saml, but the part saml is not open (PARTS)";

const file = join(mkdtempSync(join(tmpdir(), "providers-")), "providers.json");
writeFileSync(file, JSON.stringify([{ name: "corp", kind: "saml", metadata: METADATA }]));
const SETTINGS = { PARTS: "-saml", AUTH_PROVIDERS: file };

test("without the part, a provider of SAML in AUTH_PROVIDERS ends the start", () => {
  const env = { PATH: process.env.PATH, HOME: tmpdir(), ...SETTINGS };
  const { status, stderr } = spawnSync(process.execPath, ["cli/content-service.ts", "start"], { cwd: PROJECT, env });
  expect([status, stderr.toString()]).toEqual([
    2,
    `AUTH_PROVIDERS names a file in which [0].${NOT_OPEN} (is "${file}")\n`,
  ]);
});

test("doctor federated says so too", async () => {
  const { exitCode, stderr } = await outcomeOf(doctor(["federated"], SETTINGS));
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(NOT_OPEN)]);
});

const client = useFederated({ entries: (idp) => [oidcEntry(idp)], settings: { PARTS: "-saml" } });
const statusOf = async (method: string, path: string) =>
  (await fetch(`${client.service().url}${path}`, { method, redirect: "manual" })).status;

test("one in the table is left out, and its paths are neither served nor described", async () => {
  const definition = JSON.stringify({ kind: "saml", metadata: METADATA });
  await client.sql("insert into auth_private.providers (name, definition) values ('corp', $1)", definition);
  const messages: string[] = [];
  await expect
    .poll(() => {
      messages.push(...client.log().map(({ msg }) => msg));
      return messages;
    })
    .toContain(`the provider corp of the table: ${NOT_OPEN}: a provider of the table is not used`);
  const { data } = (await (await fetch(`${client.service().url}/auth/providers`)).json()) as any;
  expect(data.map(({ name }: { readonly name: string }) => name)).toEqual(["acme"]);
  for (const [method, path] of [
    ["GET", "/auth/saml/corp"],
    ["POST", "/auth/saml/corp/acs"],
    ["GET", "/auth/saml/corp/metadata"],
    ["OPTIONS", "/auth/saml/corp/logout"],
  ] as const)
    expect([path, await statusOf(method, path)]).toEqual([path, 404]);
  const { paths } = (await (await fetch(`${client.service().url}/openapi.json`)).json()) as any;
  expect(Object.keys(paths).filter((path) => path.startsWith("/auth/saml"))).toEqual([]);
  expect(paths["/auth/oidc/{provider}"]).toBeDefined();
});
