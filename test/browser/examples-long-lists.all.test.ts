import { expect, onTestFinished, test } from "vitest";
import { closePages, hasBrowser, sharedBrowser } from "../support/browser.ts";
import { Examples } from "../support/examples.ts";
import { startTestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** With longer steps, the end of a list is near. */
const longer = {
  name: "longer steps",
  transform: (code: string) => code.replace(/\b(PAGE|ROWS) = 8;/, "$1 = 400;"),
};

test.runIf(hasBrowser("long lists of the example pages"))(
  "the lists of the example pages end at 1,000 rows, and say so",
  async () => {
    const [service, browser] = await Promise.all([startTestService(), sharedBrowser()]);
    onTestFinished(async () => {
      delete process.env.VITE_ANON_KEY;
      await closePages();
      await service.stop();
    });
    process.env.VITE_ANON_KEY = service.service.tokens.issueKey("anon");
    const examples = await Examples.build([longer]);
    onTestFinished(() => examples.close());
    await examples.serve(service.url);
    const { owner } = service.database;
    await owner.query(
      "insert into articles (title, content, author_id, status) select 'Row ' || i, 'x', 1, 'PUBLISHED' from generate_series(1, 1005) i",
    );
    const { rows } = await owner.query("select count(*) from articles where status = 'PUBLISHED'");

    for (const folder of ["plain", "apollo", "urql", "supabase"]) {
      const page = await browser.newPage();
      page.setDefaultTimeout(60_000);
      await page.goto(examples.urlOf(folder));
      const list = page.getByRole("region", { name: "List of articles" });
      const more = list.getByRole("button", { name: "More", exact: true });
      for (const count of [400, 800, 1000]) {
        await expect.poll(() => list.getByRole("listitem").count(), POLL).toBe(count);
        if (count < 1000) await more.click();
      }
      await list.getByText(`${rows[0].count} articles, of which the newest 1000 are shown`, { exact: true }).waitFor();
      expect([folder, await more.isVisible()]).toEqual([folder, false]);
      await page.close();
    }
  },
);
