# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Pool descriptions: written and read again, every mistake named, missing drafts told."""

import hashlib

import pytest

from memspec_ros.errors import ConfigError, DataError, TokenizerMismatchError
from memspec_ros.models.pool import Pool, PoolEntry, load_pool, write_pool

CHECKSUM = 'ab' * 32
YAML = f"""
name: tiny
target: some/model.gguf
tokenizer_checksum: {CHECKSUM}
general: all
predictor: heads/predictor.safetensors
drafts:
- {{name: all, domain: general, file: all.safetensors, dtype: int8, bytes: 10, output_rows: 7}}
- {{name: code, domain: code, hf: org/name@v1, format: checkpoint, checksum: {CHECKSUM}}}
"""


class Tokens:
    """A table of tokens that are their own bytes."""

    bos_id = None

    def __init__(self, tokens, end_ids=(0,)):
        self._tokens = tokens
        self.vocab_size = len(tokens)
        self.end_ids = frozenset(end_ids)

    def token_bytes(self, token_id):
        return self._tokens[token_id]


@pytest.fixture
def write(tmp_path):
    """Write a pool's YAML and return its path."""
    def write_text(text):
        path = tmp_path / 'pool.yaml'
        path.write_text(text)
        return path
    return write_text


def test_a_pool_is_read(write):
    pool = load_pool(write(YAML), CHECKSUM)
    assert pool.general_draft == 'all'
    assert pool['all'].num_bytes == 10
    assert pool['all'].output_rows == 7
    assert pool['code'] == PoolEntry(name='code', domain='code', hf='org/name@v1',
                                     format='checkpoint', checksum=CHECKSUM)
    assert pool.predictor_path == pool.path.parent / 'heads/predictor.safetensors'


def test_what_a_missing_draft_may_take_follows_from_its_entry():
    entry = PoolEntry(name='d', domain='x', file='f', dtype='int8', num_bytes=1000)
    assert entry.expected_slot_bytes('fp32') == 4000
    assert entry.expected_slot_bytes('bf16') == 2000


def test_what_is_written_is_read_again(write):
    pool = load_pool(write(YAML))
    write_pool(pool)
    assert load_pool(pool.path) == pool
    assert pool.path.read_text().startswith('# Pool of drafts for some/model.gguf')


@pytest.mark.parametrize(('old', 'new', 'message'), [
    ('general: all', 'genral: all', r"unknown key 'genral'; did you mean 'general'"),
    ('general: all', 'general: al', r"general is 'al', which is no draft of it; did you mean "
                                    r"'all'"),
    ('bytes: 10', 'byte: 10', r"draft 1 of pool .* unknown key 'byte'; did you mean 'bytes'"),
    ('bytes: 10', 'num_bytes: 10', r"unknown key 'num_bytes'"),
    ('bytes: 10', 'bytes: ten', r"bytes is 'ten'; it must be an integer"),
    ('bytes: 10', 'bytes: -1', r'bytes is -1'),
    ('dtype: int8', 'dtype: int2', r"dtype is 'int2'; it must be one of fp32, fp16, bf16, int8"),
    ('file: all.safetensors, ', '', r"has file '' and hf ''; it needs exactly one"),
    ('hf: org/name@v1', 'hf: a/b, file: c', r'it needs exactly one'),
    ('name: code', 'name: all', r"there are 2 drafts named 'all'"),
    ('name: code', 'name: ngram', r"draft 'ngram': a name has 1 to 64 letters"),
    ('name: code', 'name: "../x"', r'a name has 1 to 64 letters'),
    ('name: code, ', '', r'draft 2 of pool .* lacks name'),
    ('name: tiny', 'name: 3', r'name is 3; it must be text'),
    ('format: checkpoint', 'format: gguf', r"format is 'gguf'; it must be one of draft"),
    (f'checksum: {CHECKSUM}}}', 'checksum: xyz}', r"checksum is 'xyz'; it must be 64 hex"),
    ('drafts:', 'drafts: 3\nx:', r"unknown key 'x'"),
    (YAML, 'name: a\ntarget: b\ndrafts: 3', r'drafts is 3; it must be a list'),
    (YAML, '[1, 2]', r'is a list; it must be a mapping'),
    (YAML, 'name: a\ntarget: b\ndrafts: [3]', r'draft 1 of pool .* is a int; it must be a map'),
    (YAML, '{', r'pool .* cannot be read'),
    (YAML, '\x00', r'pool .* cannot be read'),
    (YAML, '[' * 5000, r'pool .* cannot be read'),
    (YAML, '# ' + 'x' * 2**20, r'has \d+ bytes; at most 1048576 are read'),
])
def test_every_mistake_is_named(write, old, new, message):
    assert old in YAML
    with pytest.raises(ConfigError, match=message):
        load_pool(write(YAML.replace(old, new)))


def test_a_missing_pool_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r'pool .*gone\.yaml cannot be read: .*No such file'):
        load_pool(tmp_path / 'gone.yaml')


def test_tokens_of_another_content_are_refused(write):
    other = hashlib.sha256(b'x').hexdigest()
    path = write(YAML)
    with pytest.raises(TokenizerMismatchError, match=r"for the tokens of 'some/model.gguf' "
                       rf'\(content {CHECKSUM[:12]}\); .* content {other[:12]}: their contents'):
        load_pool(path, other)
    with pytest.raises(TokenizerMismatchError, match=(
            r"2 of 4 tokens differ, first 1 \(b'b' and b'x'\), 3 \(b'd' and b'y'\); their "
            r'numbers are 4 and 5; an answer ends with \[0\] and \[2\]')):
        load_pool(path, other, pool_tokens=Tokens([b'a', b'b', b'c', b'd']),
                  target_tokens=Tokens([b'a', b'x', b'c', b'y', b'e'], end_ids=(2,)))


def test_a_draft_that_is_not_there_is_named_with_the_nearest(write):
    pool = load_pool(write(YAML))
    with pytest.raises(ConfigError, match=r"no draft 'cod'; did you mean 'code'\?; it has all, "):
        pool['cod']


def test_some_drafts_are_selected(write):
    pool = load_pool(write(YAML))
    assert pool.select(()) is pool
    only = pool.select(('code',))
    assert [entry.name for entry in only.drafts] == ['code']
    assert only.general_draft == 'code'
    with pytest.raises(ConfigError, match="no draft 'x'"):
        pool.select(('x',))


def test_a_failed_write_is_told(tmp_path):
    pool = Pool(name='a', target='t', drafts=(), path=tmp_path / 'no' / 'pool.yaml')
    with pytest.raises(DataError, match=r'pool\.yaml cannot be written'):
        write_pool(pool)
