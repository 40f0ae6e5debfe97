// What a client of @supabase/supabase-js may write, and what it may not; compiled, never run.
import { createClient } from "@supabase/supabase-js";
import type { CompositeTypes, Constants, Database, Enums, Json, Tables, TablesInsert, TablesUpdate } from "./shop.ts";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** `is<typeof data, string | null>(true)` compiles when both are one type. */
declare function is<A, B>(same: Same<A, B>): void;
/** The data of a response without an error. */
type Data<Request extends PromiseLike<unknown>> =
  Extract<Awaited<Request>, { error: null }> extends { data: infer D } ? D : never;

declare const url: string;
const shop = createClient<Database, "shop">(url, "key", { db: { schema: "shop" } });

export function selects() {
  const rows = shop.from("products").select("id, code, price, sizes, details, note, picture, weight, label");
  is<
    Data<typeof rows>,
    {
      id: number;
      code: string;
      price: { amount: number | null; currency: string | null };
      sizes: ("S" | "M" | 'it\'s "XL"')[];
      details: NonNullable<Json>;
      note: string | null;
      picture: string | null;
      weight: number | null;
      label: string | null;
    }[]
  >(true);

  const odd = shop.from("makers").select("*").single();
  is<Data<typeof odd>, { id: number; name: string; "home page": string | null }>(true);

  // @ts-expect-error no such column
  shop.from("products").select("id").eq("shape", "round");
  // @ts-expect-error another type
  shop.from("products").select("id").eq("id", "one");
}

export function views() {
  const offers = shop.from("offers").select("*");
  is<Data<typeof offers>, { id: number; code: string; weight: number | null; slogan: string | null }[]>(true);

  const totals = shop.from("totals").select("*");
  is<Data<typeof totals>, { maker_id: number; products: number | null; heaviest: number | null }[]>(true);
}

export function embeds() {
  const toOne = shop.from("products").select("id, makers(name)");
  is<Data<typeof toOne>, { id: number; makers: { name: string } }[]>(true);

  const toMany = shop.from("makers").select("name, products(code, stocks(amount), categories(name))");
  is<
    Data<typeof toMany>,
    { name: string; products: { code: string; stocks: { amount: number } | null; categories: { name: string }[] }[] }[]
  >(true);

  const spread = shop.from("makers").select("name, ...products(code)");
  is<Data<typeof spread>, { name: string; code: string[] }[]>(true);

  const fields = shop.from("products").select("id, full_label, stock_of(amount), siblings(code)");
  is<
    Data<typeof fields>,
    { id: number; full_label: string | null; stock_of: { amount: number } | null; siblings: { code: string }[] }[]
  >(true);

  const everything = shop.from("stocks").select("products(*)").single();
  is<"full_label" extends keyof Data<typeof everything>["products"] ? true : false, false>(true);
}

export function changes() {
  shop.from("products").insert({ maker_id: 1, code: "A3", price: { amount: 1, currency: "EUR" }, sizes: ["S"] });
  shop.from("products").upsert([{ id: 1, maker_id: 1, code: "A3", price: { amount: null, currency: null } }]);
  shop.from("products").update({ weight: null, on_sale: true }).eq("id", 1).maxAffected(1);
  shop.from("offers").insert({ code: "A4", weight: 1.5 });
  shop.from("offers").update({ weight: null }).eq("id", 1);

  // @ts-expect-error maker_id has no default
  shop.from("products").insert({ code: "A3", price: { amount: 1, currency: "EUR" } });
  // @ts-expect-error no label of the enum
  shop.from("products").update({ sizes: ["XS"] });
  // @ts-expect-error not null
  shop.from("products").update({ code: null });
  // @ts-expect-error not null
  shop.from("products").update({ details: null });
  // @ts-expect-error generated
  shop.from("products").update({ label: "A3" });
  // @ts-expect-error identity always
  shop.from("makers").insert({ id: 7, name: "Acme" });
  // @ts-expect-error computed
  shop.from("products").update({ full_label: "A3" });
  // @ts-expect-error an expression of the view
  shop.from("offers").update({ slogan: "Buy!" });
  // @ts-expect-error a view of groups can't be written to
  shop.from("totals").insert({ maker_id: 1 });
}

export function calls() {
  const found = shop.rpc("find_products", { keyword: "a%" }).select("code, makers(name)");
  is<Data<typeof found>, { code: string; makers: { name: string } }[]>(true);

  const one = shop.rpc("cheapest");
  is<null extends Data<typeof one> ? true : false, true>(true);
  const chosen = shop.rpc("cheapest").select("code, weight");
  is<Data<typeof chosen>, { code: string; weight: number | null }>(true);

  const value = shop.rpc("count_products", { maker: 1 });
  is<Data<typeof value>, number | null>(true);

  const table = shop.rpc("report");
  is<Data<typeof table>, { day: string | null; code: string }[]>(true);
  const columns = shop.rpc("report").select("day").not("day", "is", null);
  is<Data<typeof columns>, { day: string | null }[]>(true);

  const values = shop.rpc("codes");
  is<Data<typeof values>, string[]>(true);

  const nothing = shop.rpc("empty_stock");
  is<Data<typeof nothing>, undefined>(true);

  const circle = shop.rpc("area", { radius: 2 });
  is<Data<typeof circle>, number | null>(true);
  const rectangle = shop.rpc("area", { width: 2, height: 3 });
  is<Data<typeof rectangle>, string | null>(true);

  const composite = shop.rpc("convert", { price: { amount: 2 }, currency: null });
  is<Data<typeof composite>, { amount: number | null; currency: string | null } | null>(true);

  const added = shop.rpc("add_product", {
    product: { maker_id: 1, code: "A5", price: { amount: 1, currency: "EUR" } },
  });
  is<NonNullable<Data<typeof added>>["code"], string>(true);

  const longest = shop.rpc("longest", { words: ["a", "bc"] });
  is<Data<typeof longest>, string | null>(true);

  // @ts-expect-error keyword is required
  shop.rpc("find_products", { most: 3 });
  // @ts-expect-error another type
  shop.rpc("count_products", { maker: "one" });
  // @ts-expect-error a function with several unnamed arguments cannot be called
  shop.rpc("hidden");
  const unclear = shop.rpc("twice", { number: 1 });
  is<Data<typeof unclear> extends { error: true } ? true : false, true>(true);
}

export function names(product: TablesInsert<"products">, change: TablesUpdate<"products">) {
  is<(typeof product)["id"], number | undefined>(true);
  is<(typeof change)["price"], CompositeTypes<"price"> | undefined>(true);
  is<Tables<"offers">["slogan"], string | null>(true);
  is<Tables<{ schema: "shop" }, "totals">["maker_id"], number>(true);
  is<Enums<"size">, (typeof Constants.shop.Enums.size)[number]>(true);
  is<Enums<{ schema: "shop" }, "size">, "S" | "M" | 'it\'s "XL"'>(true);
  // @ts-expect-error no such table
  type Missing = Tables<"orders">;
  const pick = <Name extends keyof Database["shop"]["Tables"]>(name: Name, row: Tables<Name>): Json => [
    name,
    String(row),
  ];
  return pick satisfies unknown as Missing;
}
