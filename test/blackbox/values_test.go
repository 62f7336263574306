// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"testing"
)

// TestValuesOfCalculations: what pandas and numpy leave in lists and dicts comes back as JSON.
func TestValuesOfCalculations(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for code, want := range map[string]string{
		"v = {'mean': pd.Series([1,2]).mean(), 'n': np.int64(3), 'ok': np.bool_(True)}": `{"mean":1.5,"n":3,"ok":true}`,
		"v = [np.float64(1.5), np.float32(0.5), np.nan, np.inf]":                        `[1.5,0.5,null,null]`,
		"v = {'a': np.arange(3), 'b': [np.str_('x')]}":                                  `{"a":[0,1,2],"b":["x"]}`,
		"v = np.int8(7)":                             `7`,
		"v = np.eye(2)":                              `[[1.0,0.0],[0.0,1.0]]`,
		"v = pd.Series({'a': 1.5}).to_dict()":        `{"a":1.5}`,
		"v = [1, 'é漢🙂', None, True, 2.5, {'k': []}]": `[1,"é漢🙂",null,true,2.5,{"k":[]}]`,
		"v = (1, (2, 3))":                            `[1,[2,3]]`,
		"v = float('nan')":                           `null`,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code, call{"return": []string{"v"}}, within(30)).ok(t)
			if got := string(x.Values["v"]["application/json"]); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	for code, input := range map[string]any{"print(v)": "é漢🙂", "print(v['a'][1])": call{"a": []any{1, "é漢🙂"}}} {
		s.run(t, code, call{"inputs": call{"v": input}}).says(t, "é漢🙂")
	}
}
