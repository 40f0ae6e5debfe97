import type {} from "postgraphile";

/**
 * A name that has no letter or digit in GraphQL is written as hexadecimal code points, because PostGraphile would not build the
 * schema: `=` is `u3d`. A leading digit of another script gets an underscore like any other: `١` is `_1`. So do the values of enums
 * that GraphQL does not allow: `true` is `_true`.
 */
export const SpelledNamesPlugin: GraphileConfig.Plugin = {
  name: "SpelledNamesPlugin",
  version: "1.0.0",
  after: ["TransliterationPlugin", "PgCodecsPlugin", "PgProceduresPlugin", "NamesakesPlugin"],
  inflection: {
    add: {
      coerced(_options, text) {
        return /^[ -~]*$/.test(text) ? text : this.coerceToGraphQLName(text);
      },
    },
    replace: {
      coerceToGraphQLName: once((previous, _options, name) => orSpelled(previous!(name), name).replace(/^(?=\d)/, "_")),
      camelCase: once(function (previous, _options, text) {
        return orSpelled(previous!(this.coerced(text)), text).replace(/^(?=\d)/, "_");
      }),
      upperCamelCase: once(function (previous, _options, text) {
        return orSpelled(previous!(this.coerced(text)), text, "U");
      }),
      constantCase: (previous, _options, text) => orSpelled(previous!(text), text).replace(/^_+/, "_"),
      enumValue(previous, _options, value, codec) {
        const spelled = (label: string) => {
          // PostGraphile looks each value up in an object, which finds `constructor` and the like.
          const name = label in {} ? label : previous!(label, codec);
          const plain = orSpelled(name.replace(/\W+/g, "_").replace(/^_+/, "_"), label);
          return plain.replace(/^(?=\d|(?:true|false|null)$)/, "_");
        };
        const names =
          enumNames.get(codec) ??
          namesOf(
            codec.values.map((each) => each.value),
            spelled,
          );
        enumNames.set(codec, names);
        return names.get(value) ?? spelled(value);
      },
      // The name is spelled before these inflectors add a word to it, or remove the underscore of an array.
      typeCodecName(previous, _options, { pgType, ...details }) {
        const [, array, name] = /^(_?)(.*)$/s.exec(pgType.typname)!;
        const typname = pgType.typcategory === "A" ? array + orSpelled(name!, name!) : pgType.typname;
        return previous!({ ...details, pgType: Object.assign(Object.create(pgType), { typname }) });
      },
      functionResourceName(previous, _options, { pgProc, ...details }) {
        const { proname } = pgProc;
        const named = { proname: orSpelled(proname, proname) };
        return previous!({ ...details, pgProc: Object.assign(Object.create(pgProc), named) });
      },
    },
  },
};

type Inflector = (
  this: GraphileBuild.Inflection,
  previous: ((text: string) => string) | undefined,
  options: GraphileConfig.ResolvedPreset,
  text: string,
) => string;

/** A build asks for the name of a column dozens of times. */
function once(spell: Inflector): Inflector {
  const names = new WeakMap<object, Map<string, string>>();
  return function (previous, options, text) {
    const known = names.get(this) ?? new Map<string, string>();
    names.set(this, known);
    const name = known.get(text) ?? spell.call(this, previous, options, text);
    known.set(text, name);
    return name;
  };
}

const enumNames = new WeakMap<object, ReadonlyMap<string, string>>();

/** Of labels that have one name, all but the first get a number: `a-b` is `a_b`, and then `a b` is `a_b_2`. */
function namesOf(labels: readonly string[], nameOf: (label: string) => string): ReadonlyMap<string, string> {
  const plain = labels.map(nameOf);
  const taken = new Set(plain);
  return new Map(
    labels.map((label, i) => {
      let name = plain[i]!;
      for (let n = 2; plain.indexOf(plain[i]!) !== i && taken.has(name); n++) name = `${plain[i]}_${n}`;
      taken.add(name);
      return [label, name];
    }),
  );
}

const orSpelled = (name: string, text: string, prefix = "u"): string =>
  /[\p{L}\p{N}]/u.test(name)
    ? name
    : [...text].map((character) => prefix + character.codePointAt(0)!.toString(16)).join("");

declare global {
  namespace GraphileBuild {
    interface Inflection {
      /** A name of the database in ASCII. */
      coerced(this: Inflection, text: string): string;
    }
  }
}
