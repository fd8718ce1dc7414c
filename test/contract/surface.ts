// Collects what users of Latchkey rely on, in the form that is recorded for each version.
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { parse } from 'yaml'
import { Cli } from '#cmd/latchkey/cli.ts'
import { createProgram } from '#cmd/latchkey/run-latchkey.ts'
import { systemClock } from '#internal/base/index.ts'
import { type Setting, settings } from '#internal/config/settings.ts'
import { internalDocument, publicContract } from '#internal/openapi/index.ts'
import { settingNames } from '#internal/settings/index.ts'
import { testLimits } from '#test/support/api.ts'
import { type PlainDocument, plainDocument } from './openapi-diff.ts'
import { mapValues, plainSchema, sortKeys } from './plain.ts'
import type { Schema, Schemas } from './schema-diff.ts'

const root = resolve(import.meta.dir, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Versions of a CustomResourceDefinition by name. */
export type Definition = Readonly<Record<string, DefinitionVersion>>

/** One version of a CustomResourceDefinition. */
export interface DefinitionVersion {
  readonly served: boolean
  readonly selectableFields: readonly string[]
  readonly spec: Schema
  readonly status: Schema
}

/** Type and labels of a metric. */
export interface Metric {
  readonly type: string
  readonly labels: readonly string[]
}

/** A setting as its environment variable shows it. */
export interface PlainSetting {
  readonly type: string
  readonly default?: string
  readonly requiredBy: readonly string[]
}

/** Chart values: their schema and their defaults by path. */
export interface ChartValues {
  readonly schema: Schema
  readonly definitions: Schemas
  readonly defaults: Readonly<Record<string, unknown>>
}

/** Everything that is recorded, by the name of its file. */
export interface Surface {
  readonly public: PlainDocument
  readonly internal: PlainDocument
  readonly tenant: Definition
  readonly metrics: Readonly<Record<string, Metric>>
  readonly settings: Readonly<Record<string, PlainSetting>>
  readonly values: ChartValues
  /** Options of each command and subcommand. */
  readonly commands: Readonly<Record<string, readonly string[]>>
  /** Names of alerts, recorded series and run-time settings. */
  readonly names: Readonly<Record<string, readonly string[]>>
  /** Expressions of the admission policy, each of which must hold. */
  readonly policy: readonly string[]
}

/** Reads the surface of these sources. */
export async function readSurface(): Promise<Surface> {
  return {
    public: plainDocument(publicContract(testLimits)),
    internal: plainDocument(internalDocument()),
    tenant: definitionOf(read('crds/latchkey.dev_tenants.yaml')),
    metrics: metricsOf(sources()),
    settings: settingsOf(),
    values: chartValues(),
    commands: await commandsOf(),
    names: namesOf(),
    policy: policyOf(read('crds/tenants-platform.latchkey.dev.yaml')),
  }
}

function namesOf(): Surface['names'] {
  const folder = 'charts/latchkey/files/rules'
  const rules = readdirSync(join(root, folder)).flatMap((name) => {
    const { groups } = parse(read(`${folder}/${name}`)) as {
      groups: { rules: { alert?: string; record?: string }[] }[]
    }
    return groups.flatMap((group) => group.rules)
  })
  const sorted = (names: readonly string[]) => [...new Set(names)].toSorted()
  return {
    alerts: sorted(rules.flatMap(({ alert }) => alert ?? [])),
    'recorded series': sorted(rules.flatMap(({ record }) => record ?? [])),
    'run-time settings': sorted(settingNames),
  }
}

function policyOf(text: string): readonly string[] {
  const { spec } = parse(text.split('\n---\n')[0] ?? '') as {
    spec: { validations: { expression: string }[] }
  }
  return spec.validations.map(({ expression }) => expression.replaceAll(/\s+/g, ' ')).toSorted()
}

function definitionOf(text: string): Definition {
  const { spec } = parse(text.split('\n---\n')[0] ?? '') as {
    spec: {
      versions: {
        name: string
        served: boolean
        selectableFields?: { jsonPath: string }[]
        schema: { openAPIV3Schema: { properties: { spec: object; status: object } } }
      }[]
    }
  }
  return Object.fromEntries(
    spec.versions.map(({ name, served, selectableFields = [], schema }) => {
      const { properties } = schema.openAPIV3Schema
      return [
        name,
        {
          served,
          selectableFields: selectableFields.map(({ jsonPath }) => jsonPath).toSorted(),
          spec: plainSchema(properties.spec),
          status: plainSchema(properties.status),
        },
      ]
    }),
  )
}

/** Returns the sources of the program by path. */
export function sources(): ReadonlyMap<string, string> {
  const paths = ['internal', 'cmd'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((path) => `${folder}/${String(path)}`),
  )
  const code = paths.filter((path) => /\.tsx?$/.test(path) && !/\.test\.tsx?$/.test(path))
  return new Map(code.toSorted().map((path) => [path, read(path)]))
}

const metricName =
  /'((?:latchkey|controller_runtime|workqueue|rest_client|leader_election|process)_[a-z_]+)'/g
const callsBefore = /\b(counter|gauge|histogram)\(|\badd\(/g

/**
 * Reads the declarations of metrics: `metrics.gauge({ name, labels })`, or `gauge(name, …)` without labels. @throws for a name that
 * stands in no declaration
 */
export function metricsOf(files: ReadonlyMap<string, string>): Readonly<Record<string, Metric>> {
  const found: Record<string, Metric> = {}
  for (const [path, text] of files)
    for (const { 1: name = '', index } of text.matchAll(metricName)) {
      const before = text.slice(0, index)
      const after = text.slice(index + name.length + 2)
      const [call, declared] = [...before.matchAll(callsBefore)].at(-1) ?? []
      const type = declared ?? (call && /'(counter|gauge|histogram)'/.exec(after)?.[1])
      if (type === undefined)
        throw new Error(`${path}: the metric ${name} is not declared where its name is written`)
      const isOptions = /\bname: $/.test(before)
      found[name] = { type, labels: isOptions || declared === undefined ? labelsOf(before, after) : [] }
    }
  return sortKeys(found)
}

function labelsOf(before: string, after: string): readonly string[] {
  const [, list, samples] = /\blabels(?:: \[([^\]]*)\]|: \{([^}]*)\}|\b)/.exec(after) ?? []
  const shared = [...before.matchAll(/\blabels = \[([^\]]*)\]/g)].at(-1)?.[1]
  const names = list ?? samples?.replaceAll(/:[^,]*/g, '') ?? shared ?? ''
  return (names.match(/\w+/g) ?? []).toSorted()
}

function settingsOf(): Surface['settings'] {
  const all: readonly Setting[] = Object.values(settings)
  return sortKeys(
    Object.fromEntries(
      all.map(({ env, type, requiredBy = [], ...rest }) => [
        env,
        {
          type: type.name,
          ...(rest.default !== undefined && { default: rest.default }),
          requiredBy: requiredBy.toSorted(),
        },
      ]),
    ),
  )
}

function chartValues(): ChartValues {
  const { definitions, ...schema } = JSON.parse(read('charts/latchkey/values.schema.json')) as {
    definitions: Readonly<Record<string, object>>
  }
  const values = parse(read('charts/latchkey/values.yaml')) as object
  return {
    schema: plainSchema(schema),
    definitions: mapValues(definitions, plainSchema),
    defaults: sortKeys(Object.fromEntries(leavesOf(values, []))),
  }
}

function leavesOf(value: unknown, path: readonly string[]): (readonly [string, unknown])[] {
  const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isGroup || Object.keys(value).length === 0) return [[path.join('.'), value]]
  return Object.entries(value).flatMap(([name, each]) => leavesOf(each, [...path, name]))
}

/** Returns the options of each command, including those of its subcommands. A subcommand is listed by itself, too. */
async function commandsOf(): Promise<Surface['commands']> {
  const terminal = {
    env: {},
    isColoured: false,
    read: async () => '',
    say: () => undefined,
    complain: () => undefined,
  }
  const found: Record<string, readonly string[]> = {}
  const add = ({ options, commands }: CommandUnknownOpts, path: string): readonly string[] => {
    const own = options.flatMap(({ long, hidden }) => (!long || hidden ? [] : [long]))
    const inner = commands.flatMap((each) => add(each, `${path} ${each.name()}`.trim()))
    const all = [...new Set([...own, ...inner])].toSorted()
    if (path !== '') found[path] = all
    return all
  }
  add(await createProgram(new Cli(terminal, systemClock)), '')
  return sortKeys(found)
}
