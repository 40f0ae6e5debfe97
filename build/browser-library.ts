// Bundles what the page /graphiql uses of packages: parts/explorer/browser/library.js → library.js.gz. Run it when that file or a version changes.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const FOLDER = new URL("../parts/explorer/browser/", import.meta.url);

/** The code of the bundle: one module, minified. */
export async function bundleLibrary(): Promise<string> {
  const entry = fileURLToPath(new URL("library.js", FOLDER));
  const result = await build({
    configFile: false,
    logLevel: "warn",
    define: { "process.env.NODE_ENV": '"production"' },
    build: {
      write: false,
      target: "es2023",
      minify: true,
      lib: { entry, formats: ["es"] },
      rolldownOptions: { output: { minify: true } },
    },
  });
  const [{ output }] = result as unknown as [{ output: readonly { readonly code: string }[] }];
  if (output.length !== 1) throw new Error("the library is not one file");
  return output[0]!.code;
}

if (import.meta.main) writeFileSync(new URL("library.js.gz", FOLDER), gzipSync(await bundleLibrary(), { level: 9 }));
