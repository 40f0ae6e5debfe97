import Module, { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

type Transliteration = { transliterate(text: string): string };

const postgraphile = createRequire(fileURLToPath(import.meta.resolve("postgraphile/graphile-build")));
const require = createRequire(postgraphile.resolve("graphile-build"));
const file = require.resolve("transliteration");

const ASCII = /^\p{ASCII}*$/u;

function load(): Transliteration {
  delete require.cache[file];
  return require(file);
}

/**
 * PostGraphile loads the library `transliteration`, whose tables take 17 MB, for names of the database that are not ASCII. This module
 * takes the place of the library until there is such a name. It must be imported before PostGraphile.
 */
const substitute: Transliteration = {
  transliterate: (text) => (ASCII.test(text) ? text : load().transliterate(text)),
};

if (!(file in require.cache)) {
  const module = new Module(file);
  module.exports = substitute;
  module.loaded = true;
  require.cache[file] = module;
}
