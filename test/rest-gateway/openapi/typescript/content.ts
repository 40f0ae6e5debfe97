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
  public: {
    Tables: {
      article_translations: {
        Row: {
          article_id: number
          language: string
          title: string
        }
        ComputedFields: never
        Insert: {
          article_id: number
          language: string
          title: string
        }
        Update: {
          article_id?: number
          language?: string
          title?: string
        }
        Relationships: [
          {
            foreignKeyName: "article_translations_article_id_fkey"
            columns: ["article_id"]
            isOneToOne: false
            referencedRelation: "articles"
            referencedColumns: ["id"]
          },
        ]
      }
      articles: {
        Row: {
          author_id: number
          content: string
          created_at: string
          id: number
          status: Database["public"]["Enums"]["article_status"]
          tags: string[]
          title: string
          updated_at: string | null
          articles_summary: string | null
        }
        ComputedFields: "articles_summary"
        Insert: {
          author_id?: number
          content: string
          created_at?: string
          id?: never
          status?: Database["public"]["Enums"]["article_status"]
          tags?: string[]
          title: string
          updated_at?: string | null
        }
        Update: {
          author_id?: number
          content?: string
          created_at?: string
          id?: never
          status?: Database["public"]["Enums"]["article_status"]
          tags?: string[]
          title?: string
          updated_at?: string | null
        }
        Relationships: [
          {
            foreignKeyName: "articles_author_id_fkey"
            columns: ["author_id"]
            isOneToOne: false
            referencedRelation: "users"
            referencedColumns: ["id"]
          },
        ]
      }
      comments: {
        Row: {
          article_id: number
          author_id: number
          content: string
          created_at: string
          id: number
        }
        ComputedFields: never
        Insert: {
          article_id: number
          author_id?: number
          content: string
          created_at?: string
          id?: never
        }
        Update: {
          article_id?: number
          author_id?: number
          content?: string
          created_at?: string
          id?: never
        }
        Relationships: [
          {
            foreignKeyName: "comments_article_id_fkey"
            columns: ["article_id"]
            isOneToOne: false
            referencedRelation: "articles"
            referencedColumns: ["id"]
          },
          {
            foreignKeyName: "comments_author_id_fkey"
            columns: ["author_id"]
            isOneToOne: false
            referencedRelation: "users"
            referencedColumns: ["id"]
          },
        ]
      }
      users: {
        Row: {
          age: number | null
          avatar_url: string | null
          created_at: string
          email: string
          id: number
          name: string
          updated_at: string
          users_avatar: string | null
          users_private_email: string | null
        }
        ComputedFields: "users_avatar" | "users_private_email"
        Insert: {
          age?: number | null
          avatar_url?: string | null
          created_at?: string
          email: string
          id?: never
          name: string
          updated_at?: string
        }
        Update: {
          age?: number | null
          avatar_url?: string | null
          created_at?: string
          email?: string
          id?: never
          name?: string
          updated_at?: string
        }
        Relationships: []
      }
    }
    Views: {
      security_events: {
        Row: {
          address: string | null
          at: string
          detail: NonNullable<Json>
          event: string
          id: number
          operator: string | null
          user_id: number | null
        }
        ComputedFields: never
        Insert: {
          address?: string | null
          at?: string
          detail?: NonNullable<Json>
          event?: string
          id?: never
          operator?: string | null
          user_id?: never
        }
        Update: {
          address?: string | null
          at?: string
          detail?: NonNullable<Json>
          event?: string
          id?: never
          operator?: string | null
          user_id?: never
        }
        Relationships: []
      }
    }
    Functions: {
      articles_related_articles: {
        Args: {
          article:
            | Partial<Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">>
            | null
          limit?: number | null
        }
        Returns: {
          author_id: number
          content: string
          created_at: string
          id: number
          status: Database["public"]["Enums"]["article_status"]
          tags: string[]
          title: string
          updated_at: string | null
        }[]
        SetofOptions: {
          from: "*"
          to: "articles"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      articles_summary: {
        Args: {
          article:
            | Partial<Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">>
            | null
          length?: number | null
        }
        Returns: string | null
      }
      articles_title: {
        Args: {
          article:
            | Partial<Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">>
            | null
          language: string | null
        }
        Returns: string | null
      }
      create_article: {
        Args: {
          input:
            | Partial<Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">>
            | null
        }
        Returns: {
          article:
            | Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">
            | null
          errors: Database["public"]["CompositeTypes"]["field_error"][] | null
          message: string | null
          success: boolean | null
        } | null
      }
      create_comment: {
        Args: { article_id: number | null; content: string | null }
        Returns: {
          article_id: number
          author_id: number
          content: string
          created_at: string
          id: number
        } | null
        SetofOptions: {
          from: "*"
          to: "comments"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      create_user: {
        Args: {
          input:
            | Partial<Omit<Database["public"]["Tables"]["users"]["Row"], "users_avatar" | "users_private_email">>
            | null
        }
        Returns: {
          age: number | null
          avatar_url: string | null
          created_at: string
          email: string
          id: number
          name: string
          updated_at: string
        } | null
        SetofOptions: {
          from: "users"
          to: "users"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      delete_article: { Args: { id: number | null }; Returns: boolean | null }
      me: {
        Args: Record<PropertyKey, never>
        Returns: {
          age: number | null
          avatar_url: string | null
          created_at: string
          email: string
          id: number
          name: string
          updated_at: string
        } | null
        SetofOptions: {
          from: "*"
          to: "users"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      publish_article: {
        Args: { id: number | null }
        Returns: {
          author_id: number
          content: string
          created_at: string
          id: number
          status: Database["public"]["Enums"]["article_status"]
          tags: string[]
          title: string
          updated_at: string | null
        } | null
        SetofOptions: {
          from: "*"
          to: "articles"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      search: {
        Args: { keyword: string | null }
        Returns: {
          author_id: number
          content: string
          created_at: string
          id: number
          status: Database["public"]["Enums"]["article_status"]
          tags: string[]
          title: string
          updated_at: string | null
        }[]
        SetofOptions: {
          from: "*"
          to: "articles"
          isOneToOne: false
          isSetofReturn: true
        }
      }
      update_article: {
        Args: {
          id: number | null
          input:
            | Partial<Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">>
            | null
        }
        Returns: {
          author_id: number
          content: string
          created_at: string
          id: number
          status: Database["public"]["Enums"]["article_status"]
          tags: string[]
          title: string
          updated_at: string | null
        } | null
        SetofOptions: {
          from: "*"
          to: "articles"
          isOneToOne: true
          isSetofReturn: false
        }
      }
      users_avatar: {
        Args: {
          person:
            | Partial<Omit<Database["public"]["Tables"]["users"]["Row"], "users_avatar" | "users_private_email">>
            | null
          size?: number | null
        }
        Returns: string | null
      }
      users_private_email: {
        Args: {
          person:
            | Partial<Omit<Database["public"]["Tables"]["users"]["Row"], "users_avatar" | "users_private_email">>
            | null
        }
        Returns: string | null
      }
    }
    Enums: {
      article_status: "DRAFT" | "PUBLISHED" | "ARCHIVED"
    }
    CompositeTypes: {
      field_error: {
        code: string | null
        field: string | null
        message: string | null
      }
      mutation_result: {
        article:
          | Omit<Database["public"]["Tables"]["articles"]["Row"], "articles_summary">
          | null
        errors: Database["public"]["CompositeTypes"]["field_error"][] | null
        message: string | null
        success: boolean | null
      }
    }
  }
}

type Schemas = Omit<Database, "__InternalSupabase">

type DefaultSchema = Schemas[Extract<keyof Schemas, "public">]

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
  public: {
    Enums: {
      article_status: ["DRAFT", "PUBLISHED", "ARCHIVED"],
    },
  },
} as const
