// expect: timeout
// kind: hang; why: a search that backtracks without end ends by time
/^(a+)+$/.test('a'.repeat(60) + '!')
