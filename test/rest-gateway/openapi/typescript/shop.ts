// biome-ignore-all format: as it is served
export type Json =
  | string
  | number
  | boolean
  | null
  | { [key: string]: Json | undefined }
  | Json[]

export type Database = {
  __InternalSupabase: {
    PostgrestVersion: "14"
  }
  shop: {
    Tables: {
      categories: {
        Row: {
          id: string
          name: string
        }
        ComputedFields: never
        Insert: {
          id?: string
          name: string
        }
        Update: {
          id?: string
          name?: string
        }
        Relationships: []
      }
      "maker's \"orders\"": {
        Row: {
          maker_id: number
          to: string
        }
        ComputedFields: never
        Insert: {
          maker_id: number
          to: string
        }
        Update: {
          maker_id?: number
          to?: string
        }
        Relationships: [
          {
            foreignKeyName: "maker's \"orders\"_maker_id_fkey"
            columns: ["maker_id"]
            isOneToOne: false
            referencedRelation: "makers"
            referencedColumns: ["id"]
          },
        ]
      }
      makers: {
        Row: {
          "home page": string | null
          id: number
          name: string
        }
        ComputedFields: never
        Insert: {
          "home page"?: string | null
          id?: never
          name: string
        }
        Update: {
          "home page"?: string | null
          id?: never
          name?: string
        }
        Relationships: []
      }
      product_categories: {
        Row: {
          category_id: string
          product_id: number
        }
        ComputedFields: never
        Insert: {
          category_id: string
          product_id: number
        }
        Update: {
          category_id?: string
          product_id?: number
        }
        Relationships: [
          {
            foreignKeyName: "product_categories_category_id_fkey"
            columns: ["category_id"]
            isOneToOne: false
            referencedRelation: "categories"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "product_categories_product_id_fkey"
            columns: ["product_id"]
            isOneToOne: false
            referencedRelation: "offers"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "product_categories_product_id_fkey"
            columns: ["product_id"]
            isOneToOne: false
            referencedRelation: "products"
            referencedColumns: ["id"]
          },
        ]
      }
      products: {
        Row: {
          added_at: string
          address: string | null
          code: string
          colour: Json | null
          details: NonNullable<Json>
          extras: Json | null
          id: number
          label: string | null
          maker_id: number
          note: string | null
          on_sale: boolean
          picture: string | null
          place: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes: Database["shop"]["Enums"]["size"][]
          sold: string | null
          state: "new" | "used"
          weight: number | null
          full_label: string | null
        }
        ComputedFields: "full_label"
        Insert: {
          added_at?: string
          address?: string | null
          code: string
          colour?: number | null
          details?: NonNullable<Json>
          extras?: Json | null
          id?: number
          label?: never
          maker_id: number
          note?: string | null
          on_sale?: boolean
          picture?: string | null
          place?: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes?: Database["shop"]["Enums"]["size"][]
          sold?: string | null
          state?: "new" | "used"
          weight?: number | null
        }
        Update: {
          added_at?: string
          address?: string | null
          code?: string
          colour?: number | null
          details?: NonNullable<Json>
          extras?: Json | null
          id?: number
          label?: never
          maker_id?: number
          note?: string | null
          on_sale?: boolean
          picture?: string | null
          place?: unknown
          price?: Database["shop"]["CompositeTypes"]["price"]
          sizes?: Database["shop"]["Enums"]["size"][]
          sold?: string | null
          state?: "new" | "used"
          weight?: number | null
        }
        Relationships: [
          {
            foreignKeyName: "products_maker_id_fkey"
            columns: ["maker_id"]
            isOneToOne: false
            referencedRelation: "makers"
            referencedColumns: ["id"]
          },
        ]
      }
      samples: {
        Row: {
          bit: string | null
          bool: boolean | null
          box: string | null
          bpchar: string | null
          bytea: string | null
          cidr: string | null
          date: string | null
          empty: string[] | null
          float4: number | null
          float8: number | null
          inet: string | null
          int2: number | null
          int4: number | null
          int4multirange: string | null
          int4range: string | null
          int8: number | null
          interval: string | null
          json: Json | null
          jsonb: Json | null
          macaddr: string | null
          money: string | null
          name: string | null
          numbers: number[] | null
          numeric: number | null
          oid: string | null
          point: string | null
          price: Database["shop"]["CompositeTypes"]["price"] | null
          sizes: Database["shop"]["Enums"]["size"][] | null
          text: string | null
          texts: string[] | null
          time: string | null
          timestamp: string | null
          timestamptz: string | null
          timetz: string | null
          tsquery: string | null
          tsvector: string | null
          uuid: string | null
          varbit: string | null
          varchar: string | null
        }
        ComputedFields: never
        Insert: {
          bit?: string | null
          bool?: boolean | null
          box?: string | null
          bpchar?: string | null
          bytea?: string | null
          cidr?: string | null
          date?: string | null
          empty?: string[] | null
          float4?: number | null
          float8?: number | null
          inet?: string | null
          int2?: number | null
          int4?: number | null
          int4multirange?: string | null
          int4range?: string | null
          int8?: number | null
          interval?: string | null
          json?: Json | null
          jsonb?: Json | null
          macaddr?: string | null
          money?: string | null
          name?: string | null
          numbers?: number[] | null
          numeric?: number | null
          oid?: string | null
          point?: string | null
          price?: Database["shop"]["CompositeTypes"]["price"] | null
          sizes?: Database["shop"]["Enums"]["size"][] | null
          text?: string | null
          texts?: string[] | null
          time?: string | null
          timestamp?: string | null
          timestamptz?: string | null
          timetz?: string | null
          tsquery?: string | null
          tsvector?: string | null
          uuid?: string | null
          varbit?: string | null
          varchar?: string | null
        }
        Update: {
          bit?: string | null
          bool?: boolean | null
          box?: string | null
          bpchar?: string | null
          bytea?: string | null
          cidr?: string | null
          date?: string | null
          empty?: string[] | null
          float4?: number | null
          float8?: number | null
          inet?: string | null
          int2?: number | null
          int4?: number | null
          int4multirange?: string | null
          int4range?: string | null
          int8?: number | null
          interval?: string | null
          json?: Json | null
          jsonb?: Json | null
          macaddr?: string | null
          money?: string | null
          name?: string | null
          numbers?: number[] | null
          numeric?: number | null
          oid?: string | null
          point?: string | null
          price?: Database["shop"]["CompositeTypes"]["price"] | null
          sizes?: Database["shop"]["Enums"]["size"][] | null
          text?: string | null
          texts?: string[] | null
          time?: string | null
          timestamp?: string | null
          timestamptz?: string | null
          timetz?: string | null
          tsquery?: string | null
          tsvector?: string | null
          uuid?: string | null
          varbit?: string | null
          varchar?: string | null
        }
        Relationships: []
      }
      stocks: {
        Row: {
          amount: number
          product_id: number
        }
        ComputedFields: never
        Insert: {
          amount: number
          product_id: number
        }
        Update: {
          amount?: number
          product_id?: number
        }
        Relationships: [
          {
            foreignKeyName: "stocks_product_id_fkey"
            columns: ["product_id"]
            isOneToOne: true
            referencedRelation: "offers"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "stocks_product_id_fkey"
            columns: ["product_id"]
            isOneToOne: true
            referencedRelation: "products"
            referencedColumns: ["id"]
          },
        ]
      }
    }
    Views: {
      offers: {
        Row: {
          code: string
          id: number
          slogan: string | null
          weight: number | null
        }
        ComputedFields: never
        Insert: {
          code?: string
          id?: number
          slogan?: never
          weight?: number | null
        }
        Update: {
          code?: string
          id?: number
          slogan?: never
          weight?: number | null
        }
        Relationships: []
      }
      totals: {
        Row: {
          heaviest: number | null
          maker_id: number
          products: number | null
        }
        ComputedFields: never
        Relationships: [
          {
            foreignKeyName: "products_maker_id_fkey"
            columns: ["maker_id"]
            isOneToOne: false
            referencedRelation: "makers"
            referencedColumns: ["id"]
          },
        ]
      }
    }
    Functions: {
      add_product: {
        Args: {
          product:
            | Partial<Omit<Database["shop"]["Tables"]["products"]["Row"], "full_label">>
            | null
        }
        Returns: {
          added_at: string
          address: string | null
          code: string
          colour: Json | null
          details: NonNullable<Json>
          extras: Json | null
          id: number
          label: string | null
          maker_id: number
          note: string | null
          on_sale: boolean
          picture: string | null
          place: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes: Database["shop"]["Enums"]["size"][]
          sold: string | null
          state: "new" | "used"
          weight: number | null
        } | null
        SetofOptions: {
          from: "products"
          to: "products"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      area:
        | { Args: { radius: number | null }; Returns: number | null }
        | {
            Args: { height: number | null; width: number | null }
            Returns: string | null
          }
      cheapest: {
        Args: Record<PropertyKey, never>
        Returns: {
          added_at: string
          address: string | null
          code: string
          colour: Json | null
          details: NonNullable<Json>
          extras: Json | null
          id: number
          label: string | null
          maker_id: number
          note: string | null
          on_sale: boolean
          picture: string | null
          place: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes: Database["shop"]["Enums"]["size"][]
          sold: string | null
          state: "new" | "used"
          weight: number | null
        } | null
        SetofOptions: {
          from: "*"
          to: "products"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      codes: { Args: Record<PropertyKey, never>; Returns: string[] }
      convert: {
        Args: {
          currency: string | null
          price: Partial<Database["shop"]["CompositeTypes"]["price"]> | null
        }
        Returns: {
          amount: number | null
          currency: string | null
        } | null
      }
      count_products: { Args: { maker: number | null }; Returns: number | null }
      empty_stock: { Args: Record<PropertyKey, never>; Returns: undefined }
      find_products: {
        Args: { keyword: string | null; most?: number | null }
        Returns: {
          added_at: string
          address: string | null
          code: string
          colour: Json | null
          details: NonNullable<Json>
          extras: Json | null
          id: number
          label: string | null
          maker_id: number
          note: string | null
          on_sale: boolean
          picture: string | null
          place: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes: Database["shop"]["Enums"]["size"][]
          sold: string | null
          state: "new" | "used"
          weight: number | null
        }[]
        SetofOptions: {
          from: "*"
          to: "products"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      full_label: {
        Args: { "": Database["shop"]["Tables"]["products"]["Row"] }
        Returns: { error: true } & "shop.full_label( => shop.products) is a field: select it from the rows of its table"
      }
      longest: { Args: { words: string[] | null }; Returns: string | null }
      receive: { Args: { "": Json }; Returns: Json | null }
      report: {
        Args: Record<PropertyKey, never>
        Returns: {
          code: string
          day: string | null
        }[]
      }
      siblings: {
        Args: {
          product:
            | Partial<Omit<Database["shop"]["Tables"]["products"]["Row"], "full_label">>
            | null
        }
        Returns: {
          added_at: string
          address: string | null
          code: string
          colour: Json | null
          details: NonNullable<Json>
          extras: Json | null
          id: number
          label: string | null
          maker_id: number
          note: string | null
          on_sale: boolean
          picture: string | null
          place: unknown
          price: Database["shop"]["CompositeTypes"]["price"]
          sizes: Database["shop"]["Enums"]["size"][]
          sold: string | null
          state: "new" | "used"
          weight: number | null
        }[]
        SetofOptions: {
          from: "products"
          to: "products"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      stock_of: {
        Args: { "": Database["shop"]["Tables"]["products"]["Row"] }
        Returns: {
          amount: number
          product_id: number
        }
        SetofOptions: {
          from: "products"
          to: "stocks"
          isOneToOne: true
          isSetofReturn: true
        }
      }
      twice:
        | {
            Args: { number: number | null }
            Returns: { error: true } & "A call fits each of shop.twice(number => integer), shop.twice(number => text): rename arguments of all but one"
          }
        | {
            Args: { number: string | null }
            Returns: { error: true } & "A call fits each of shop.twice(number => integer), shop.twice(number => text): rename arguments of all but one"
          }
    }
    Enums: {
      size: "S" | "M" | "it's \"XL\""
    }
    CompositeTypes: {
      price: {
        amount: number | null
        currency: string | null
      }
    }
  }
}

type Schemas = Omit<Database, "__InternalSupabase">

type DefaultSchema = Schemas[Extract<keyof Schemas, "shop">]

type InSchema = { schema: keyof Schemas }

type SchemaOf<Choice> = Choice extends { schema: infer Name extends keyof Schemas }
  ? Schemas[Name]
  : DefaultSchema

type Part<Whole, Name> = Name extends keyof Whole ? Whole[Name] : never

type Relations<Schema> = Part<Schema, "Tables"> & Part<Schema, "Views">

export type Tables<
  Choice extends keyof Relations<DefaultSchema> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Relations<SchemaOf<Choice>>
    : never = never,
> = Part<
  Part<Relations<SchemaOf<Choice>>, Choice extends InSchema ? Name : Choice>,
  "Row"
>

export type TablesInsert<
  Choice extends keyof Part<DefaultSchema, "Tables"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "Tables">
    : never = never,
> = Part<
  Part<
    Part<SchemaOf<Choice>, "Tables">,
    Choice extends InSchema ? Name : Choice
  >,
  "Insert"
>

export type TablesUpdate<
  Choice extends keyof Part<DefaultSchema, "Tables"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "Tables">
    : never = never,
> = Part<
  Part<
    Part<SchemaOf<Choice>, "Tables">,
    Choice extends InSchema ? Name : Choice
  >,
  "Update"
>

export type Enums<
  Choice extends keyof Part<DefaultSchema, "Enums"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "Enums">
    : never = never,
> = Part<
  Part<SchemaOf<Choice>, "Enums">,
  Choice extends InSchema ? Name : Choice
>

export type CompositeTypes<
  Choice extends keyof Part<DefaultSchema, "CompositeTypes"> | InSchema,
  Name extends Choice extends InSchema
    ? keyof Part<SchemaOf<Choice>, "CompositeTypes">
    : never = never,
> = Part<
  Part<SchemaOf<Choice>, "CompositeTypes">,
  Choice extends InSchema ? Name : Choice
>

export const Constants = {
  shop: {
    Enums: {
      size: ["S", "M", "it's \"XL\""],
    },
  },
} as const
