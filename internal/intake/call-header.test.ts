import { expect, test } from 'bun:test'
import { readHeader } from './call-header.ts'

const names = ['x-ours', 'x-theirs', 'theirs']

test.each([
  ['neither', {}, { kind: 'absent' }],
  ['ours', { 'X-Ours': 'a' }, { kind: 'value', value: 'a' }],
  ['theirs', { 'X-THEIRS': 'a' }, { kind: 'value', value: 'a' }],
  ['all, alike', { 'x-ours': 'a', 'x-theirs': 'a', theirs: 'a' }, { kind: 'value', value: 'a' }],
  ['two that differ', { 'x-ours': 'a', theirs: 'b' }, { kind: 'conflict' }],
  ['two that differ in case', { 'x-ours': 'a', theirs: 'A' }, { kind: 'conflict' }],
  ['one that is empty', { 'x-ours': '' }, { kind: 'absent' }],
  ['an empty one beside another', { 'x-ours': '', 'x-theirs': 'a' }, { kind: 'conflict' }],
] as const)('%s', (_what, headers, reading) => {
  expect(readHeader(new Headers(headers as Record<string, string>), names)).toEqual(reading)
})
