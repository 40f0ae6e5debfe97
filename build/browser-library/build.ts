// Bundles what the page /graphiql uses of packages: library.js → parts/explorer/browser/library.js.gz. Run it when that file or a version changes.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { installPackages } from "../packages.ts";

const BUNDLE = new URL("../../parts/explorer/browser/library.js.gz", import.meta.url);

/** The code of the bundle: one module, minified. */
export async function bundleLibrary(): Promise<string> {
  const entry = fileURLToPath(new URL("library.js", import.meta.url));
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

if (import.meta.main) {
  if (installPackages("build/browser-library")) writeFileSync(BUNDLE, gzipSync(await bundleLibrary(), { level: 9 }));
  else process.exitCode = 1;
}
