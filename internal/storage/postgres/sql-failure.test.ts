import { expect, test } from 'bun:test'
import { DrizzleQueryError } from 'drizzle-orm'
import { classifySqlError, isMistake, withoutParameters } from './sql-failure.ts'

const sqlError = (code: string, constraint?: string) =>
  Object.assign(new Error('a statement failed'), { code, constraint })

const failures: readonly [name: string, error: unknown, kind: string, code: string][] = [
  ['a deadlock', sqlError('40P01'), 'retry', '40P01'],
  ['a serialization failure', sqlError('40001'), 'retry', '40001'],
  ['a check violation without a constraint', sqlError('23514'), 'partition_missing', '23514'],
  ['a check violation of a constraint', sqlError('23514', 'events_round'), 'rejected', '23514'],
  ['a duplicate key', sqlError('23505', 'events_pkey'), 'rejected', '23505'],
  ['U+0000 in a text', sqlError('22021'), 'rejected', '22021'],
  ['an index entry that is too large', sqlError('54000'), 'rejected', '54000'],
  ['a statement too complex for the server', sqlError('54001'), 'rejected', '54001'],
  ['an invalid date', new RangeError('Invalid time value'), 'rejected', 'RangeError'],
  ['a missing table', sqlError('42P01'), 'mistake', '42P01'],
  ['a missing grant', sqlError('42501'), 'mistake', '42501'],
  ['a type error of the code', new TypeError('undefined is not a function'), 'mistake', 'TypeError'],
  [
    'a type error with a Node.js code',
    Object.assign(new TypeError('wrong argument'), { code: 'ERR_INVALID_ARG_TYPE' }),
    'mistake',
    'TypeError',
  ],
  ['a thrown text', 'not an error', 'mistake', 'unknown'],
  ['a refused connection', sqlError('ECONNREFUSED'), 'unavailable', 'ECONNREFUSED'],
  ['a Node.js code that begins with digits', sqlError('22'), 'unavailable', '22'],
  ['a statement timeout', sqlError('57014'), 'unavailable', '57014'],
  ['a full disk', sqlError('53100'), 'unavailable', '53100'],
  ['a read-only server', sqlError('25006'), 'unavailable', '25006'],
  ['an error of the driver without a code', new Error('Query read timeout'), 'unavailable', 'Error'],
]

test.each(failures)('classifySqlError: classifies %s', (_name, error, kind, code) => {
  expect(classifySqlError(error)).toEqual({ kind: kind as never, code })
  expect(isMistake(error)).toBe(kind !== 'retry' && kind !== 'unavailable')
})

test.each(failures)(
  'classifySqlError: classifies %s the same if a DrizzleQueryError wraps the error',
  (_name, error, kind) => {
    if (!(error instanceof Error)) return
    expect(classifySqlError(new DrizzleQueryError('SELECT $1', ['secret'], error)).kind).toBe(kind as never)
  },
)

test('withoutParameters: returns the cause of a DrizzleQueryError, which does not contain the statement’s parameters', () => {
  const cause = sqlError('22021')
  expect(withoutParameters(new DrizzleQueryError('SELECT $1', ['secret'], cause))).toBe(cause)
  const orphan = withoutParameters(new DrizzleQueryError('SELECT $1', ['secret']))
  expect(orphan).toBeInstanceOf(Error)
  expect(`${(orphan as Error).message}${(orphan as Error).stack}`).not.toContain('secret')
  expect(withoutParameters(cause)).toBe(cause)
})
