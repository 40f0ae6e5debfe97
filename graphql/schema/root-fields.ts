import type { getBuilder } from "postgraphile/graphile-build";
import type { GraphQLObjectType } from "postgraphile/graphql";
import { mapYielding } from "../../db/catalog/event-loop.ts";

type FieldWithHooks = (scope: { readonly fieldName: string }, spec: unknown) => object;
type Added = Parameters<FieldWithHooks>;

/** Ends the hooks of a type. */
const enough = new Error("the fields are known");

/**
 * Builds a type with fields for all tables, such as `Query`, in slices. A hook adds the fields of all tables in one turn, so the hooks run
 * twice: first they name the fields, each of which is then built in its slice, and then they add what was built.
 */
export class RootFields {
  /** The type that is built now. */
  #type: GraphQLObjectType | null = null;
  /** Whether the hooks only name the fields. */
  isNaming = false;
  #named: Added[] = [];
  #build: FieldWithHooks | null = null;
  /** What was built for each name, in the order of the calls: functions that return a field or throw. */
  #built: Map<string, (() => object)[]> | null = null;
  readonly #fields = new WeakSet<object>();
  readonly #onField: () => void;

  constructor(builder: ReturnType<typeof getBuilder>, onField: () => void) {
    this.#onField = onField;
    const { GraphQLObjectType_fields: hooks } = builder.hooks;
    hooks.unshift((fields, _build, context) => {
      if (context.Self === this.#type)
        Object.assign(context, { fieldWithHooks: this.#adding(context.fieldWithHooks as never) });
      return fields;
    });
    hooks.push((fields, _build, context) => {
      if (context.Self === this.#type && this.isNaming) throw enough;
      return fields;
    });
  }

  async build(type: GraphQLObjectType): Promise<void> {
    this.#type = type;
    [this.#named, this.#built] = [[], null];
    this.isNaming = true;
    try {
      type.getFields();
    } catch (error) {
      if (error !== enough) this.#named = [];
    }
    this.isNaming = false;
    const built = new Map<string, (() => object)[]>();
    await mapYielding(this.#named, (added) => {
      const { fieldName } = added[0];
      built.set(fieldName, [...(built.get(fieldName) ?? []), this.#result(added)]);
    });
    this.#built = built;
    type.getFields();
    this.#type = null;
  }

  #adding(build: FieldWithHooks): FieldWithHooks {
    this.#build = build;
    return (...added) => {
      if (this.isNaming) {
        this.#named.push(added);
        return {};
      }
      const field = this.#built?.get(added[0].fieldName)?.shift();
      if (field) return field();
      // PostGraphile passes all fields again at the end.
      return this.#fields.has(added[1] as object) ? (added[1] as object) : build(...added);
    };
  }

  #result(added: Added): () => object {
    this.#onField();
    try {
      const field = this.#build!(...added);
      this.#fields.add(field);
      return () => field;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }
}
