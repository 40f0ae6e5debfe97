import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { useOwnService } from "../support/http-client.ts";

const { service } = useOwnService({
  settings: { API_KEY_REQUIRED: "off" },
  ddl: `create function public.letters() returns text language sql stable as $$ select repeat('abc', 200000) $$;
    grant execute on function public.letters to anon;`,
});

const run = promisify(execFile);
const curl = async (...options: string[]): Promise<string> =>
  (await run("curl", ["-s", ...options, `${service().url}/rest/v1/rpc/letters`], { maxBuffer: 2_000_000 })).stdout;

test("curl reads the same body with --compressed as without it, in a fraction of the bytes", async () => {
  const [plain, compressed] = await Promise.all([curl(), curl("--compressed")]);
  expect([plain.length, compressed]).toEqual([600_002, plain]);
  const size = (...options: string[]) => curl(...options, "-o", "/dev/null", "-w", "%{size_download}");
  expect(await size()).toBe("600002");
  expect(Number(await size("--compressed"))).toBeLessThan(20_000);
});
