import { alwaysOn } from "../../pages/pages.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { LIST, listGroups, schemaIn } from "./contents.ts";
import { startPage } from "./site.ts";

export const site: Part = {
  name: "site",
  about: "the start page, and the documentation at /docs/… and /llms.txt",
  paths: ["/", LIST],
  pages: () => [
    { path: "/", name: "Start", banner: "Start page" },
    { path: "/docs/readme", name: "Documentation" },
  ],
  documents: ({ folder }) => ({ groups: listGroups(), schema: schemaIn(folder) }),
  openEarly: (base) =>
    alwaysOn(new ExpressInterface({ routers: [startPage(base)], onInternalError: base.onInternalError })),
};
