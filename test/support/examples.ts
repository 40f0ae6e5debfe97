import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { build, type PluginOption, type PreviewServer, preview } from "vite";
import { afterAll, beforeAll } from "vitest";
import { closePages, sharedBrowser } from "./browser.ts";
import type { TestDatabase } from "./database.ts";
import { startTestService, type TestService } from "./service.ts";

const OPTIONS = { root: "demo/pages", logLevel: "warn" } as const;

/** The example pages, behind a proxy that passes the paths of the service on. */
export class Examples {
  readonly #outDir: string;
  #pages: PreviewServer | null = null;

  private constructor(outDir: string) {
    this.#outDir = outDir;
  }

  static async build(plugins: PluginOption[] = []): Promise<Examples> {
    const outDir = await mkdtemp(join(tmpdir(), "examples-"));
    await build({ ...OPTIONS, plugins, build: { outDir } });
    return new Examples(outDir);
  }

  /** Serves them for this service. */
  async serve(service: string): Promise<void> {
    process.env.SERVICE_URL = service;
    const options = { build: { outDir: this.#outDir }, preview: { port: 0, host: "127.0.0.1" } };
    this.#pages = await preview({ ...OPTIONS, ...options });
  }

  urlOf(folder: string): string {
    return `${this.#pages!.resolvedUrls!.local[0]}${folder}/index.html`;
  }

  async close(): Promise<void> {
    delete process.env.SERVICE_URL;
    await this.#pages?.close();
  }
}

/** A test may restart the service. */
type Used = { service: TestService; browser: Browser; examples: Examples };

/** The example pages, a browser and a service, for the tests of a file, unless no browser is installed. */
export function useExamples(installed: boolean, settings: Readonly<Record<string, string>> = {}): Used {
  const used = {} as Used;
  beforeAll(async () => {
    if (!installed) return;
    const parts = [startTestService(settings), sharedBrowser(), Examples.build()] as const;
    [used.service, used.browser, used.examples] = await Promise.all(parts);
    await used.examples.serve(used.service.url);
  });
  afterAll(async () => {
    await closePages();
    await used.examples?.close();
    await used.service?.stop();
  });
  return used;
}

/** Signs in on an example page. */
export async function signIn(page: Page, username = "ada"): Promise<void> {
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  const form = page.getByRole("form", { name: "Sign in" });
  await form.getByLabel("Username").fill(username);
  await form.getByLabel("Password").fill("Correct-Horse-7!");
  await form.getByRole("button").first().click();
  await page.getByText("Signed in as").waitFor();
}

/** Inserts an article of ada, and returns a function that inserts a comment of bob on it. */
export async function publishArticle(
  { owner }: TestDatabase,
  title: string,
): Promise<(content: string) => Promise<unknown>> {
  const { rows } = await owner.query(
    "insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED') returning id",
    [title],
  );
  return (content) =>
    owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [rows[0].id, content]);
}
