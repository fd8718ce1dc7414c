// openapi-typescript builds syntax trees with the compiler's API, which TypeScript 7 lacks, so this replaces `typescript` with the
// compatibility package of TypeScript 6.
import typescript from '@typescript/typescript6'
import { plugin } from 'bun'

plugin({
  name: 'typescript 6',
  setup(build) {
    build.module('typescript', () => ({ exports: { default: typescript, ...typescript }, loader: 'object' }))
  },
})
