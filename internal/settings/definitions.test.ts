import { describe, expect, test } from 'bun:test'
import { limitNames, parseProviderName, providerNames } from '#internal/tenants/index.ts'
// Imports the file, since `index.ts` of `usage` does not export this function. Tests may do so.
import { effectiveLimits } from '#internal/usage/limits.ts'
import {
  checkSetting,
  checkSettingName,
  conflictBetween,
  isValueOf,
  parseSettingText,
  settingDefinitions,
  settingNames,
  toRuntimeSettings,
} from './definitions.ts'

const problemOf = (name: string, value: unknown, ofTenant = false) => {
  const checked = checkSetting({ name, value, ofTenant })
  return checked.kind === 'refused' ? checked.problem : 'ok'
}

describe('every setting', () => {
  test.each([...settingNames])(
    'setting definition: %s has a doc sentence and a default that its own schema accepts',
    (name) => {
      const definition = settingDefinitions[name]
      expect(definition.doc).toMatch(/\.$/)
      expect(definition.expected).not.toBe('')
      if (definition.default !== null) expect(isValueOf(name, definition.default)).toBe(true)
    },
  )

  test('setting definitions: contain a pause for every provider, and the same limit defaults as the usage code', () => {
    for (const name of providerNames) expect(settingNames).toContain(`providers.${name}.paused`)
    const builtIn = effectiveLimits({ overrides: [], spec: {}, defaults: {}, nowMs: 0 })
    for (const name of limitNames) {
      for (const end of ['soft', 'hard'] as const)
        expect([name, settingDefinitions[`limits.${name}.${end}`].default]).toEqual([
          name,
          builtIn[name][end],
        ])
    }
    expect(settingDefinitions['limits.eventsPerMonth.over'].default).toBe(builtIn.eventsPerMonth.over)
  })
})

describe('a value', () => {
  test.each<[name: string, value: unknown]>([
    ['forwarding.paused', true],
    ['providers.card.paused', false],
    ['providers.slack.paused', true],
    ['providers.a-b_c9.paused', true],
    ['log.sampling', 0],
    ['log.sampling', 0.25],
    ['log.sampling', 1],
    ['limits.locksPerMinute.soft', 0],
    ['limits.recordBytes.hard', 1_000_000_000_000_000],
    ['limits.eventsPerMonth.over', 'refuse'],
    ['limits.exports.rowsPerMonth.hard', 0],
    ['limits.aPerMonth.soft', 1_000_000_000_000_000],
    ['limits.blocksPerMonth.hard', 1],
    ['retention.payloadDays', 1],
    ['retention.eventDays', 90],
  ])('checkSetting: accepts %s = %p', (name, value) => {
    expect(checkSetting({ name, value, ofTenant: false })).toEqual({ kind: 'ok', name, value } as never)
  })

  test.each<[name: string, value: unknown, problem: string]>([
    ['forwarding.paused', 'true', '"forwarding.paused" must be true or false'],
    ['forwarding.paused', 1, '"forwarding.paused" must be true or false'],
    ['forwarding.paused', null, '"forwarding.paused" must be true or false'],
    ['forwarding.paused', undefined, '"forwarding.paused" must be true or false'],
    ['log.sampling', 1.01, '"log.sampling" must be a number from 0 to 1'],
    ['log.sampling', -0.1, '"log.sampling" must be a number from 0 to 1'],
    ['log.sampling', Number.NaN, '"log.sampling" must be a number from 0 to 1'],
    [
      'limits.locksPerMinute.hard',
      1.5,
      '"limits.locksPerMinute.hard" must be a whole number from 0 to 1000000000000000',
    ],
    [
      'limits.locksPerMinute.hard',
      -1,
      '"limits.locksPerMinute.hard" must be a whole number from 0 to 1000000000000000',
    ],
    ['limits.eventsPerMonth.over', 'drop', '"limits.eventsPerMonth.over" must be accept or refuse'],
    [
      'limits.exports.rowsPerMonth.soft',
      'many',
      '"limits.exports.rowsPerMonth.soft" must be a whole number from 0 to 1000000000000000',
    ],
    ['retention.payloadDays', 0, '"retention.payloadDays" must be a whole number from 1 to 90'],
    ['retention.eventDays', 91, '"retention.eventDays" must be a whole number from 1 to 90'],
  ])('checkSetting: refuses %s = %p', (name, value, problem) => {
    expect(problemOf(name, value)).toBe(problem)
  })

  test.each([
    ['true', true],
    ['false', false],
    ['0.5', 0.5],
    ['-3', -3],
    ['accept', 'accept'],
    ['1e3', '1e3'],
    ['', ''],
  ])('parseSettingText: converts the text %p to %p', (text, value) => {
    expect(parseSettingText(text)).toBe(value)
  })
})

describe('a name', () => {
  const limitHint =
    'There is no setting of that name: a limit is limits.<name>.soft or limits.<name>.hard with the name locksPerMinute, locksPerMonth, eventsPerMinute, eventsPerMonth, recordBytes, or the kind of usage that another service reports with PerMonth, such as exports.rowsPerMonth'
  test.each([
    ['forwarding.pause', 'There is no setting of that name: did you mean forwarding.paused?'],
    ['providers.stripe.pause', 'There is no setting of that name: did you mean providers.card.paused?'],
    ['providers.Slack.paused', 'There is no setting of that name: did you mean providers.card.paused?'],
    ['providers.a.b.paused', 'There is no setting of that name: did you mean providers.card.paused?'],
    ['limits.exports.rows.hard', limitHint],
    ['limits.exports.rowsPerMinute.hard', limitHint],
    ['limits.ExportsPerMonth.hard', limitHint],
    ['limits.exports.rowsPerMonth.over', limitHint],
    [`limits.${'a'.repeat(65)}PerMonth.hard`, limitHint],
    ['toString', 'There is no setting of that name: `latchkey settings list` shows all'],
    ['__proto__', 'There is no setting of that name: `latchkey settings list` shows all'],
    ['x'.repeat(10_000), 'There is no setting of that name: `latchkey settings list` shows all'],
  ])(
    'checkSetting: refuses %p, which is not the name of a setting, and suggests a name or a command',
    (name, problem) => {
      expect(problemOf(name, true)).toBe(problem)
    },
  )

  test.each([
    ['providers.slack-events.paused', 'ok', 'providers.slack.paused'],
    ['providers.stripe.paused', 'ok', 'providers.card.paused'],
    ['providers.slak.paused', 'unknownProvider', 'did you mean providers.slack.paused?'],
    ['providers.slack-event.paused', 'unknownProvider', 'did you mean providers.slack.paused?'],
    ['providers.zzzzzz.paused', 'unknownProvider', '`latchkey providers list` shows those that are shipped'],
  ])('checkSettingName: if it knows the providers, the result for %s is %s: %s', (name, kind, text) => {
    const own: Record<string, string> = {
      slack: 'slack',
      'slack-events': 'slack',
      stripe: 'card',
      card: 'card',
    }
    const providers = {
      nameOf: (given: string) => parseProviderName(own[given] ?? ''),
      all: () => Object.keys(own),
    }
    const checked = checkSettingName({ name, ofTenant: true, providers })
    expect(checked.kind as string).toBe(kind)
    expect(checked.kind === 'ok' ? checked.name : checked.problem).toContain(text)
  })

  test('checkSetting: refuses a setting of the whole installation for a tenant', () => {
    expect(problemOf('log.sampling', 1, true)).toBe(
      'log.sampling applies to the whole installation only: omit the tenant',
    )
    expect(problemOf('forwarding.paused', true, true)).toBe('ok')
  })
})

test('runtime settings: the limits on emitted kinds have one entry per kind, with its soft and hard limit', () => {
  const settings = [
    ['limits.exports.rowsPerMonth.hard', 9],
    ['limits.aPerMonth.soft', 1],
    ['limits.exports.rowsPerMonth.soft', 5],
    ['limits.locksPerMonth.hard', 7],
  ] as const
  const stored = settings.map(([name, value]) => ({
    name,
    value,
    tenantId: null,
    version: 1,
    updatedAtMs: 0,
    updatedBy: 'ada',
  }))
  expect(toRuntimeSettings({ version: 1, settings: stored }).limits).toEqual({
    locksPerMonth: { hard: 7 },
    emitted: [
      { kind: 'exports.rows', soft: 5, hard: 9 },
      { kind: 'a', soft: 1 },
    ],
  })
})

test.each([
  [{}, undefined],
  [{ 'limits.exports.rowsPerMonth.soft': 2 }, undefined],
  [
    { 'limits.exports.rowsPerMonth.soft': 2, 'limits.exports.rowsPerMonth.hard': 1 },
    'limits.exports.rowsPerMonth.soft must not exceed limits.exports.rowsPerMonth.hard: they would be 2 and 1',
  ],
  [
    { 'retention.eventDays': 29 },
    'retention.payloadDays must not exceed retention.eventDays: they would be 30 and 29',
  ],
  [{ 'retention.eventDays': 29, 'retention.payloadDays': 29 }, undefined],
  [
    { 'limits.locksPerMinute.soft': 60_001 },
    'limits.locksPerMinute.soft must not exceed limits.locksPerMinute.hard: they would be 60001 and 60000',
  ],
  [{ 'limits.eventsPerMinute.soft': 60_001 }, undefined],
] as const)('conflictBetween: the settings %p have the contradiction %p', (values, problem) => {
  expect(conflictBetween(values)).toBe(problem)
})
