# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node's ROS parameters: one for each field of the settings, and always in step with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from memspec_ros.config import ParameterSpec, Settings, parameter_specs
from memspec_ros.errors import ConfigError, MemSpecError, did_you_mean

READ_ONLY_NOTE = 'Read-only: set it in the params file and start the node again.'
# Parameters of rclpy itself, which a params file may hold as well.
FOREIGN_PREFIXES = ('use_sim_time', 'qos_overrides.', 'start_type_description_service')


class NodeParameters:
    """Declares the parameters, and takes changes of them all or none.

    :param node: created with the params file's overrides.
    :param on_change: gets the new settings before they are committed; an error refuses them.
    """

    def __init__(self, node: Node, *, on_change: Callable[[Settings], None]) -> None:
        self._on_change = on_change
        self._specs = {spec.name: spec for spec in parameter_specs()}
        overrides = {name: parameter.value
                     for name, parameter in node._parameter_overrides.items()}
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self._check_names(overrides)
        values = {name: self._initial(spec, overrides) for name, spec in self._specs.items()}
        self.settings = self._settings(values)
        for name, spec in self._specs.items():
            # The overrides were checked above, with better messages than rclpy has.
            node.declare_parameter(name, _ros_value(values[name]), _descriptor(spec),
                                   ignore_override=True)
        node.add_on_set_parameters_callback(self._commit)

    def _check_names(self, overrides: Mapping[str, Any]) -> None:
        groups = {name.split('.')[0] for name in self._specs}
        for name in overrides:
            if name in self._specs or name.startswith(FOREIGN_PREFIXES):
                continue
            nearest = did_you_mean(name, self._specs)
            problem = f"there is no parameter '{name}'{nearest}"
            # A file for all nodes of a robot (/**) may hold what is meant for others.
            ours = nearest or name.split('.')[0] in groups
            (self.errors if ours else self.warnings).append(problem)

    def _settings(self, values: Mapping[str, Any]) -> Settings:
        try:
            return Settings.from_parameters(values)
        except ConfigError as error:
            # Values that do not go together; configure fails with it.
            self.errors.append(str(error))
            return Settings()

    def _initial(self, spec: ParameterSpec, overrides: Mapping[str, Any]) -> Any:
        if spec.name not in overrides:
            return spec.default
        value = overrides[spec.name]
        if value is None and isinstance(spec.default, tuple):
            # YAML's [] has no type, and rcl passes it on as a parameter that is not set.
            return ()
        try:
            return spec.accept(_our_value(value))
        except ConfigError as error:
            self.errors.append(str(error))
            return spec.default

    def coerced(self, parameters: Sequence[Parameter]) -> list[Parameter]:
        """Return the parameters with ints as doubles where doubles are wanted.

        :raises ConfigError: an unknown name, a wrong type, a value out of range, or a parameter
            that cannot change; nothing was changed.
        """
        return [Parameter(parameter.name, value=_ros_value(self._accept(parameter)))
                if not parameter.name.startswith(FOREIGN_PREFIXES) else parameter
                for parameter in parameters]

    def _accept(self, parameter: Parameter) -> Any:
        if parameter.name not in self._specs:
            raise ConfigError(f"there is no parameter '{parameter.name}'"
                              f'{did_you_mean(parameter.name, self._specs)}')
        spec = self._specs[parameter.name]
        value = spec.accept(_our_value(parameter.value))
        if not spec.dynamic:
            raise ConfigError(f'{spec.name} cannot become {value!r} while the node runs. '
                              f'{READ_ONLY_NOTE}')
        return value

    def _commit(self, parameters: Sequence[Parameter]) -> Any:
        changes = {parameter.name: _our_value(parameter.value) for parameter in parameters
                   if parameter.name in self._specs}
        try:
            settings = self.settings.replace(changes)
            self._on_change(settings)
        except MemSpecError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            # Whoever asked would wait forever: rclpy sends no answer then.
            return SetParametersResult(successful=False,
                                       reason=f'{type(error).__name__}: {error}')
        self.settings = settings
        return SetParametersResult(successful=True)


def _ros_value(value: Any) -> Any:
    # An empty list has no type in ROS (rclpy takes it for bytes): one empty string stands for it.
    return list(value) or [''] if isinstance(value, tuple) else value


def _our_value(value: Any) -> Any:
    return [item for item in value if item != ''] if isinstance(value, list) else value


def _descriptor(spec: ParameterSpec) -> Any:
    descriptor = ParameterDescriptor(
        description=spec.description if spec.dynamic else f'{spec.description} {READ_ONLY_NOTE}',
        read_only=not spec.dynamic,
        additional_constraints=f'One of: {", ".join(spec.choices)}.' if spec.choices else '')
    for attribute, value_range in _ranges(spec):
        setattr(descriptor, attribute, [value_range])
    return descriptor


def _ranges(spec: ParameterSpec) -> Iterator[tuple[str, Any]]:
    if spec.low is None or spec.high is None:
        return
    if isinstance(spec.default, float):
        yield 'floating_point_range', FloatingPointRange(
            from_value=float(spec.low), to_value=float(spec.high), step=0.0)
    else:
        yield 'integer_range', IntegerRange(
            from_value=int(spec.low), to_value=int(spec.high), step=0)
