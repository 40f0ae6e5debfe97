import { expect, test } from "vitest";
import { hasBrowser } from "../support/browser.ts";
import { button, expectRows, openPage, publishRows, useExamples } from "../support/examples.ts";
import { startTestService } from "../support/service.ts";

/** With longer steps, the end of a list is near. */
const longer = {
  name: "longer steps",
  transform: (code: string) => code.replace(/\b(PAGE|ROWS) = 8;/, "$1 = 400;"),
};

const installed = hasBrowser("long lists of the example pages");
const used = useExamples(installed, startTestService, [longer]);

test.skipIf(!installed)("the lists of the example pages end at 1,000 rows, and say so", async () => {
  await publishRows(used, 1005);
  const { rows } = await used.service.database.owner.query("select count(*) from articles where status = 'PUBLISHED'");
  for (const folder of ["plain", "apollo", "urql", "supabase"]) {
    const page = await openPage(used, folder);
    for (const count of [400, 800, 1000]) {
      await expectRows(page, count);
      if (count < 1000) await button(page, "More").click();
    }
    await page.getByText(`${rows[0].count} articles, of which the newest 1000 are shown`, { exact: true }).waitFor();
    expect([folder, await button(page, "More").isVisible()]).toEqual([folder, false]);
  }
});
